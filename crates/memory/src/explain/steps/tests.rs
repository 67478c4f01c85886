//! Verdicts for machines that tests describe.

use super::*;
use crate::explain::Pool;
use crate::explain::facts::Files;

type Change = fn(&mut Facts);

fn good() -> Facts {
    Facts {
        processors: 8,
        processors_online: 8,
        available_bytes: 1 << 30,
        madv_populate: true,
        madv_dontneed_locked: true,
        madv_collapse: true,
        huge_pages: "madvise".into(),
        huge_shared: "advise".into(),
        may_lock_all: true,
        shmmax: u64::MAX,
        shmall_bytes: u64::MAX,
        reaper: true,
        ..Facts::default()
    }
}

fn find(facts: &Facts, name: &str) -> Stage {
    let mut steps = steps(facts).into_iter();
    steps.find(|step| step.step == name).unwrap()
}

#[test]
fn size_of_large_huge_pages_is_explained_with_a_smaller_one() {
    for (name, file) in [
        (
            "create in huge pages, shared",
            "hugepages-2048kB/shmem_enabled",
        ),
        ("create in huge pages, private", "hugepages-2048kB/enabled"),
    ] {
        let mut facts = good();
        facts.huge_page_size = Some(2 << 20);
        let usual = find(&facts, name);
        assert!(
            !usual.why.contains("MiB") && usual.change.is_empty(),
            "{usual:?}"
        );
        // arm64 with pages of 64 KiB.
        facts.huge_page_size = Some(512 << 20);
        let large = find(&facts, name);
        assert_eq!(large.verdict, Verdict::Faster, "{large:?}");
        assert!(large.why.contains("512.0 MiB"), "{large:?}");
        assert!(large.change.is_empty(), "{large:?}");
        let sizes = [
            (128, "never".into()),
            (2048, "never".into()),
            (16384, "never".into()),
        ];
        facts.huge_pages_by_size = sizes.clone().into();
        facts.huge_shared_by_size = sizes.into();
        let large = find(&facts, name);
        assert!(
            large.change.iter().any(|change| change.contains(file)),
            "{large:?}"
        );
    }
}

#[test]
fn rest_of_memory_has_the_largest_smaller_pages_that_are_enabled() {
    let mut facts = good();
    facts.huge_page_size = Some(512 << 20);
    facts.huge_pages_by_size = [(128, "inherit".into()), (2048, "madvise".into())].into();
    let step = find(&facts, "create in huge pages, private");
    assert!(step.why.ends_with("has pages of up to 2.0 MiB"), "{step:?}");
    assert!(step.change.is_empty(), "{step:?}");
}

#[test]
fn huge_page_larger_than_the_available_memory_is_no_help() {
    let name = "create in huge pages, private";
    let mut facts = good();
    facts.huge_page_size = Some(512 << 20);
    facts.available_bytes = 300 << 20;
    let step = find(&facts, name);
    assert_eq!(step.verdict, Verdict::Plain, "{step:?}");
    assert!(
        step.why.contains("more than the available 300.0 MiB"),
        "{step:?}"
    );
    facts.huge_pages_by_size = [(2048, "always".into())].into();
    assert_eq!(find(&facts, name).verdict, Verdict::Partly);
}

/// The files of an arm64 machine with pages of 64 KiB, Linux 6.12.
#[test]
fn machine_with_64_kib_pages_is_explained_by_its_files() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let thp = "sys/kernel/mm/transparent_hugepage";
    write(&format!("{thp}/hpage_pmd_size"), "536870912\n");
    write(&format!("{thp}/enabled"), "always [madvise] never\n");
    let shared = "always within_size advise [never] deny force\n";
    write(&format!("{thp}/shmem_enabled"), shared);
    for shift in 7..=19 {
        let size = format!("{thp}/hugepages-{}kB", 1 << shift);
        let chosen = match shift {
            19 => "always [inherit] madvise never\n",
            _ => "always inherit madvise [never]\n",
        };
        write(&format!("{size}/enabled"), chosen);
        write(&format!("{size}/shmem_enabled"), chosen);
    }
    // Contiguous entries of the lowest level, the second level, and contiguous entries of it.
    for kib in [2048, 524_288, 16_777_216] {
        let pool = format!("sys/kernel/mm/hugepages/hugepages-{kib}kB");
        write(&format!("{pool}/nr_hugepages"), "0\n");
        write(&format!("{pool}/free_hugepages"), "0\n");
    }
    write(
        "proc/meminfo",
        "MemTotal: 16000000 kB\nHugepagesize:     524288 kB\n",
    );
    write("proc/sys/kernel/shmmax", "18446744073692774399\n");
    write("proc/sys/kernel/shmall", "65536\n");
    write("sys/devices/system/cpu/online", "0-79\n");
    write("sys/devices/system/node/online", "0-3\n");
    let mut facts = Facts {
        processors: 80,
        available_bytes: 8 << 30,
        madv_populate: true,
        madv_dontneed_locked: true,
        madv_collapse: true,
        ..Facts::in_files(&Files(root.path()), 64 << 10)
    };
    assert_eq!(
        (facts.page_size, facts.processors_online, facts.nodes),
        (65536, 80, 4)
    );
    assert_eq!(facts.huge_page_size, Some(512 << 20));
    assert_eq!(facts.huge_pages_by_size.len(), 13);
    // kernel.shmall is in pages.
    assert_eq!(facts.shmall_bytes, 4 << 30);
    let step = find(&facts, "limits");
    assert!(
        step.why.contains("kernel.shmall allows 4.0 GiB"),
        "{step:?}"
    );
    for (name, verdict, file) in [
        ("create in huge pages, private", Verdict::Faster, "enabled"),
        (
            "create in huge pages, shared",
            Verdict::Partly,
            "shmem_enabled",
        ),
    ] {
        let step = find(&facts, name);
        assert_eq!(step.verdict, verdict, "{step:?}");
        let size = "a huge page has 512.0 MiB, and memory outside of whole ones has small pages";
        assert!(step.why.contains(size), "{step:?}");
        let smaller = format!("echo inherit > /{thp}/hugepages-2048kB/{file}");
        assert!(step.change.last().unwrap().ends_with(&smaller), "{step:?}");
    }
    let pool = "echo PAGES > /sys/kernel/mm/hugepages/hugepages-524288kB/nr_hugepages";
    assert_eq!(find(&facts, "hugetlb pools").change, [pool]);
    // A kernel with pages of 4 KiB has a pool of 64 KiB as well, which is not the usual one.
    facts.default_pool = Some(2048);
    let pools = facts.pools.keys().copied().collect::<Vec<_>>();
    assert_eq!(pools, [2048, 524_288, 16_777_216]);
    facts.pools.insert(64, Pool { pages: 0, free: 0 });
    assert!(find(&facts, "hugetlb pools").change[0].contains("hugepages-2048kB"));
}

#[test]
fn each_obstacle_has_a_remedy() {
    let worse: [(&str, Change, &str); 8] = [
        (
            "create in small pages",
            |facts| facts.madv_populate = false,
            "5.14",
        ),
        (
            "create in small pages",
            |facts| facts.processors = 1,
            "taskset",
        ),
        (
            "create in huge pages, shared",
            |facts| facts.huge_shared = "deny".into(),
            HUGE_SHARED,
        ),
        (
            "create in huge pages, private",
            |facts| facts.huge_pages = "never".into(),
            HUGE_PRIVATE,
        ),
        (
            "lock",
            |facts| (facts.may_lock_all, facts.locked_limit) = (false, Some(8 << 20)),
            "ulimit -l",
        ),
        (
            "unmap and detach",
            |facts| facts.madv_dontneed_locked = false,
            "5.18",
        ),
        ("reaper", |facts| facts.reaper = false, "--init"),
        ("limits", |facts| facts.shmmax = 32 << 20, "kernel.shmmax"),
    ];
    for (name, change, remedy) in worse {
        assert_eq!(find(&good(), name).verdict, Verdict::Faster, "{name}");
        let mut facts = good();
        change(&mut facts);
        let step = find(&facts, name);
        assert_ne!(step.verdict, Verdict::Faster, "{name}");
        assert!(
            step.change.iter().any(|change| change.contains(remedy)),
            "{step:?}"
        );
    }
}
