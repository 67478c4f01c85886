//! Domains of a pseries guest with 64 CPUs: eight cores with eight threads in four nodes, as
//! its kernels (Debian's 6.1 and 6.12) build them. `vmtest/cpus power` compares all values of
//! all CPUs.
#![cfg(feature = "domains")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::path::Path;

use bigiron_cpu::SchedDomain;
use bigiron_cpu::build::{Architecture, Rules, build};
use bigiron_cpu::topology::Topology;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes the guest's files. The kernel shows nothing below `topology` and `cache` for offline
/// CPUs.
fn guest(root: &Path, online: &[usize]) {
    let list = |cpus: Vec<usize>| {
        cpus.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let within = |from: usize, count: usize| -> String {
        let inside = |cpu: &usize| (from..from + count).contains(cpu);
        list(online.iter().copied().filter(inside).collect())
    };
    write(root, "cpu/present", "0-63\n");
    write(root, "cpu/online", &within(0, 64));
    for cpu in 0..64 {
        let directory = format!("cpu/cpu{cpu}");
        write(
            root,
            &format!("{directory}/physical_id"),
            &format!("{cpu}\n"),
        );
        if !online.contains(&cpu) {
            continue;
        }
        let core = within(cpu / 8 * 8, 8);
        for name in ["core_cpus_list", "thread_siblings_list"] {
            write(root, &format!("{directory}/topology/{name}"), &core);
        }
        let package = within(cpu / 16 * 16, 16);
        write(
            root,
            &format!("{directory}/topology/package_cpus_list"),
            &package,
        );
        for index in ["index0", "index1"] {
            write(root, &format!("{directory}/cache/{index}/level"), "1\n");
            write(
                root,
                &format!("{directory}/cache/{index}/shared_cpu_list"),
                &core,
            );
        }
    }
    write(root, "node/online", "0-3\n");
    for (node, distance) in ["10 20 40 40", "20 10 40 40", "40 40 10 20", "40 40 20 10"]
        .iter()
        .enumerate()
    {
        write(
            root,
            &format!("node/node{node}/cpulist"),
            &within(node * 16, 16),
        );
        write(root, &format!("node/node{node}/distance"), distance);
    }
}

fn domains(online: &[usize], rules: Rules) -> Vec<Vec<SchedDomain>> {
    let directory = tempfile::tempdir().unwrap();
    guest(directory.path(), online);
    assert_eq!(
        Architecture::of_directory(directory.path()),
        Some(Architecture::Power)
    );
    let topology = Topology::from_directory(directory.path()).unwrap();
    let (online, _) = Topology::cpus_in(directory.path()).unwrap();
    let rules = rules.on(Architecture::Power);
    build(&topology, &online, &rules)
}

/// Returns name, level, span and min_interval of each domain.
fn shape(chain: &[SchedDomain]) -> Vec<String> {
    let one = |domain: &SchedDomain| {
        let (name, level) = (domain.name.as_deref().unwrap(), domain.level.unwrap());
        let interval = domain.tunables.unwrap().min_interval;
        format!(
            "{name} {level} {} {interval}",
            domain.span.as_ref().unwrap()
        )
    };
    chain.iter().map(one).collect()
}

fn flags(domain: &SchedDomain) -> String {
    domain.flags.as_ref().unwrap().join(" ")
}

#[test]
fn threads_nodes_and_distances_are_levels() {
    let all: Vec<usize> = (0..64).collect();
    let cpus = domains(&all, Rules::LINUX_6_12);
    // Without shared caches there is no CACHE level, and without coregroups no MC.
    assert_eq!(
        shape(&cpus[0]),
        [
            "SMT 0 0-7 8",
            "PKG 1 0-15 16",
            "NUMA 3 0-31 32",
            "NUMA 4 0-63 64"
        ]
    );
    assert_eq!(shape(&cpus[63])[2], "NUMA 3 32-63 32");
    assert_eq!(
        flags(&cpus[0][0]),
        "SD_BALANCE_NEWIDLE SD_BALANCE_EXEC SD_BALANCE_FORK SD_WAKE_AFFINE SD_SHARE_CPUCAPACITY SD_SHARE_LLC SD_PREFER_SIBLING"
    );
    assert_eq!(
        flags(&cpus[0][1]),
        "SD_BALANCE_NEWIDLE SD_BALANCE_EXEC SD_BALANCE_FORK SD_WAKE_AFFINE SD_PREFER_SIBLING"
    );
    // Both distances are above node_reclaim_distance of Power, 10.
    for domain in &cpus[0][2..] {
        assert_eq!(
            flags(domain),
            "SD_BALANCE_NEWIDLE SD_SERIALIZE SD_OVERLAP SD_NUMA"
        );
    }
}

#[test]
fn one_thread_per_core_has_no_smt_level() {
    let first: Vec<usize> = (0..64).step_by(8).collect();
    let cpus = domains(&first, Rules::LINUX_6_12);
    assert_eq!(
        shape(&cpus[0]),
        [
            "PKG 1 0,8 2",
            "NUMA 3 0,8,16,24 4",
            "NUMA 4 0,8,16,24,32,40,48,56 8"
        ]
    );
    assert!(cpus[1].is_empty());
}

#[test]
fn node_with_one_core_has_no_package_level() {
    let left: Vec<usize> = (0..8).chain(16..64).collect();
    let cpus = domains(&left, Rules::LINUX_6_1);
    assert_eq!(shape(&cpus[0])[..1], ["SMT 0 0-7 8"]);
    assert!(shape(&cpus[0])[1].starts_with("NUMA "));
    assert!(shape(&cpus[16])[1].starts_with("DIE "));
}
