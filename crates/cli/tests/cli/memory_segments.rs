//! `bigiron mem create`, `destroy`, `prewarm` and `explain`, checked against the kernel's own view.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::segments::{MIB, fails, files, json, mem, name, run, segment, text};

#[test]
fn created_segment_is_listed_by_ipcs_until_it_is_destroyed() {
    let id = run(&["create", "--size", "32M", "--mode", "640"]);
    let id = id.trim();
    let number: u64 = id.parse().unwrap();
    let [_, mode, size, _, attached, resident] = segment(number).unwrap();
    assert_eq!(
        (mode, size, attached, resident),
        (0o640, 32 * MIB, 0, 32 * MIB)
    );
    if let Ok(ipcs) = Command::new("ipcs").args(["-m", "-i", id]).output() {
        assert!(
            text(&ipcs.stdout).contains("bytes=33554432"),
            "{}",
            text(&ipcs.stdout)
        );
    }
    let report = json(&["destroy", "--json", id]);
    assert_eq!(report[0]["bytes"], 32 * MIB);
    assert_eq!(report[0]["attached"], 0);
    assert_eq!(segment(number), None);
    fails(&mem(&["destroy", id]).output().unwrap(), 1, "ipcs -m");
}

#[test]
fn json_report_agrees_with_the_files() {
    let name = name("report");
    let arguments = [
        "create",
        "--size",
        "20M",
        "--stripes",
        "2",
        "--huge",
        "never",
        "--json",
        &name,
    ];
    let report = json(&arguments);
    let paths = files(&name);
    let named: Vec<PathBuf> = serde_json::from_value(report["files"].clone()).unwrap();
    assert_eq!((report["kind"].as_str(), &named), (Some("posix"), &paths));
    assert_eq!(
        (&report["bytes"], &report["resident_bytes"]),
        (&(20 * MIB).into(), &(20 * MIB).into())
    );
    assert_eq!(
        (&report["bytes_of_stripe"], &report["huge_bytes"]),
        (&(10 * MIB).into(), &0.into())
    );
    assert!(report["nodes"]["0"].as_u64() > Some(0), "{report}");
    assert!(report["helpers"].as_u64() > Some(0));
    let sizes: Vec<_> = paths
        .iter()
        .map(|path| fs::metadata(path).unwrap().blocks() * 512)
        .collect();
    assert_eq!(sizes, [10 * MIB, 10 * MIB]);
    let again = mem(&arguments).output().unwrap();
    fails(&again, 1, "File exists");
    assert_eq!(files(&name), paths);
    run(&["destroy", "--quiet", &name]);
    assert_eq!(files(&name), Vec::<PathBuf>::new());
}

#[test]
fn errors_name_what_is_expected() {
    let name = name("wrong");
    for (arguments, code, part) in [
        (&["create"][..], 2, "--size"),
        (&["create", "--size", "0"], 2, "invalid size"),
        (
            &["create", "--size", "1M", "--mode", "999"],
            2,
            "600 or 664",
        ),
        (&["create", "--size", "1M", "--huge", "3M"], 2, "2M or 1G"),
        (
            &["create", "--size", "1M", "--numa", "far"],
            2,
            "interleave=NODES",
        ),
        (&["create", "--size", "1M", "--key", "0"], 2, "17 or 0x11"),
        (
            &["create", "--size", "1M", "--key", "7", "name"],
            2,
            "cannot be used with",
        ),
        (
            &["create", "--size", "1M", "--stripes", "2"],
            1,
            "POSIX memory",
        ),
        (
            &["create", "--size", "1M", "--kind", "posix"],
            1,
            "needs a NAME",
        ),
        (
            &["create", "--size", "1M", "--kind", "sysv", &name],
            1,
            "--key",
        ),
        (
            &["create", "--size", "1M", "--lock", &name],
            1,
            "System V segments",
        ),
        (
            &["create", "--size", "1M", "--huge", "64K"],
            1,
            "/sys/kernel/mm/hugepages",
        ),
        (&["create", "--size", "900T", &name], 1, "remount,size="),
        (&["create", "--size", "900T"], 1, "allows"),
        (
            &["create", "--size", "1M", "/no/such/dir/file"],
            1,
            "/no/such/dir",
        ),
        (&["destroy", "/etc/passwd"], 1, "removed by rm"),
        (&["destroy", &name], 1, "nothing of that name"),
        (&["destroy", "0xdeadbe01"], 1, "0xdeadbe01"),
        (&["prewarm", "/dev/null"], 1, "ordinary file"),
        (&["prewarm", "--lock", "/etc/passwd"], 1, "System V segment"),
    ] {
        fails(&mem(arguments).output().unwrap(), code, part);
    }
    assert_eq!(files(&name), Vec::<PathBuf>::new());
    assert!(fs::metadata("/etc/passwd").is_ok());
}

#[test]
fn errors_name_the_limits_of_an_ordinary_user() {
    let user = |limit: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
        ]);
        command
            .args(["prlimit", limit, env!("CARGO_BIN_EXE_bigiron"), "mem"])
            .args(arguments);
        command.output()
    };
    let lock = user("--memlock=1048576", &["create", "--size", "2M", "--lock"]);
    let Some(lock) = lock.ok().filter(|output| output.status.code() == Some(1)) else {
        println!("skipped: no permission to change the user with setpriv and prlimit");
        return;
    };
    fails(&lock, 1, "ulimit -l");
    let name = name("limits");
    let size = user("--fsize=1048576", &["create", "--size", "2M", &name]).unwrap();
    fails(&size, 1, "ulimit -f");
    let made = user(
        "--memlock=4194304",
        &["create", "--size", "2M", "--lock", "--quiet"],
    )
    .unwrap();
    let id = text(&made.stdout);
    let number = id.trim().parse().unwrap();
    // The mode, and SHM_LOCKED.
    assert_eq!(segment(number).unwrap()[1], 0o2600);
    run(&["destroy", id.trim()]);
}

/// A memory control group (version 1 or 2), removed on drop.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        let limits = ["memory.limit_in_bytes", "memory.max"];
        roots.iter().zip(limits).find_map(|(root, limit)| {
            let group = Self(Path::new(root).join(name("group")));
            fs::create_dir(&group.0).ok()?;
            let limited = fs::write(group.0.join(limit), bytes.to_string());
            limited.is_ok().then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn control_group_without_room_is_an_error_before_memory_is_created() {
    let Some(group) = Group::new(96 * MIB) else {
        println!("skipped: cannot create a control group");
        return;
    };
    let name = name("grouped");
    let within = |size: &str| {
        let procs = group.0.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
        let program = env!("CARGO_BIN_EXE_bigiron");
        let mut command = Command::new("sh");
        command.args([
            "-c", &script, "sh", program, "mem", "create", "--size", size, &name,
        ]);
        command.output().unwrap()
    };
    let refused = within("128M");
    if text(&refused.stderr).contains("cgroup.procs") {
        println!("skipped: {}", text(&refused.stderr));
        return;
    }
    fails(&refused, 1, "control group");
    assert_eq!(files(&name), Vec::<PathBuf>::new());
    assert_eq!(within("32M").status.code(), Some(0));
    run(&["destroy", "-q", &name]);
}

#[test]
fn prewarm_fills_holes_of_shared_memory_and_the_page_cache() {
    let name = name("holes");
    let hole = Path::new("/dev/shm").join(&name);
    fs::File::create(&hole).unwrap().set_len(10 * MIB).unwrap();
    assert_eq!(fs::metadata(&hole).unwrap().blocks(), 0);
    let report = json(&["prewarm", "--json", &name]);
    assert_eq!(report[0]["bytes"], 10 * MIB);
    assert_eq!(fs::metadata(&hole).unwrap().blocks() * 512, 10 * MIB);
    assert!(fs::read(&hole).unwrap().iter().all(|byte| *byte == 0));
    run(&["destroy", "-q", &name]);

    let id = run(&["create", "-q", "--size", "4M"]);
    run(&["prewarm", "-q", "--lock", id.trim()]);
    let locked = segment(id.trim().parse().unwrap()).unwrap()[1];
    assert_eq!(locked & 0o2000, 0o2000);
    run(&["destroy", "-q", id.trim()]);

    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![7; 8 << 20]).unwrap();
    let file = fs::File::open(&path).unwrap();
    let length = 8 << 20;
    let all = length / rustix::param::page_size();
    let cached = || {
        let mut pages = vec![0_u8; all];
        // SAFETY: a mapping of this test's file, which is unmapped again.
        unsafe {
            let address = libc::mmap(std::ptr::null_mut(), length, 1, 1, file.as_raw_fd(), 0);
            assert_ne!(address, libc::MAP_FAILED);
            assert_eq!(libc::mincore(address, length, pages.as_mut_ptr()), 0);
            libc::munmap(address, length);
        }
        pages.iter().filter(|page| **page & 1 == 1).count()
    };
    file.sync_all().unwrap();
    // SAFETY: advice about a file.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if cached() > all / 2 {
        println!("skipped: the cache of {} cannot be emptied", path.display());
        return;
    }
    let changed = fs::metadata(&path).unwrap().modified().unwrap();
    // The kernel may reclaim clean pages at any moment.
    assert!((0..1000).any(|_| {
        run(&["prewarm", "-q", path.to_str().unwrap()]);
        cached() == all
    }));
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), changed);
}

#[test]
fn destroy_reports_the_wait_and_the_end_separately() {
    // A reaper is used if one may be started, memory is plentiful, and it starts in time.
    let facts = &explain()["facts"];
    let may_have_reaper = facts["reaper"] == true;
    let expected = may_have_reaper && facts["available_bytes"].as_u64() > Some(2048 * MIB);
    let rounds = if expected { 1000 } else { 1 };
    let is_expected = (0..rounds).any(|_| {
        let id = run(&["create", "-q", "--size", "300M", "--huge", "never"]);
        let report = json(&["destroy", "--json", "--wait", id.trim()]);
        let report = &report[0];
        assert_eq!(segment(id.trim().parse().unwrap()), None);
        let (waited, complete) = (&report["wait_seconds"], &report["complete_seconds"]);
        assert!(
            waited.as_f64() <= complete.as_f64() && waited.as_f64() > Some(0.0),
            "{report}"
        );
        assert!(may_have_reaper || report["reaper"] == false, "{report}");
        report["reaper"] == true
    });
    assert!(is_expected || !expected);
    let name = name("stripes");
    run(&[
        "create",
        "-q",
        "--size",
        "300M",
        "--huge",
        "never",
        "--stripes",
        "3",
        &name,
    ]);
    let report = json(&["destroy", "--json", "--plain", &name]);
    assert_eq!(
        (&report[0]["reaper"], &report[0]["bytes"]),
        (&false.into(), &(300 * MIB).into())
    );
    assert_eq!(files(&name), Vec::<PathBuf>::new());
}

fn explain() -> Value {
    json(&["explain", "--json"])
}

#[test]
fn explain_agrees_with_sysfs() {
    let report = explain();
    let facts = &report["facts"];
    let said = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let word = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        word.map(|(word, _)| word.to_owned()).unwrap_or_default()
    };
    let huge = "/sys/kernel/mm/transparent_hugepage";
    assert_eq!(facts["huge_shared"], said(&format!("{huge}/shmem_enabled")));
    assert_eq!(facts["huge_pages"], said(&format!("{huge}/enabled")));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(facts["kernel"], release.trim());
    let words = run(&["explain"]);
    for step in report["steps"].as_array().unwrap() {
        assert!(words.contains(step["step"].as_str().unwrap()), "{step}");
        assert!(words.contains(step["why"].as_str().unwrap()), "{step}");
    }
    let limited = mem(&["explain", "--json"]);
    let mut command = Command::new("taskset");
    command
        .args(["-c", "0"])
        .arg(limited.get_program())
        .args(limited.get_args());
    match command.output() {
        Ok(output) => {
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["facts"]["processors"], 1);
            assert_eq!(report["steps"][0]["verdict"], "plain");
        }
        Err(_) => println!("skipped: taskset is not installed"),
    }
}
