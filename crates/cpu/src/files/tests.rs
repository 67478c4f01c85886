use std::sync::{Mutex, PoisonError};

use super::*;
use crate::build::Rules;
use crate::list::CpuList;
use crate::source::{DomainSource, Machine};
use crate::topology::Topology;
use crate::tree::DomainTree;

/// Machine whose CPUs go offline and online, and which counts reads.
#[derive(Default)]
struct Fake {
    tree: Mutex<DomainTree>,
    asked: Mutex<usize>,
}

impl Fake {
    fn set(&self, online: &str) {
        let machine = Machine {
            description: "eight".into(),
            topology: Topology::from_text("cores=4 threads=2").unwrap(),
            online: online.parse().unwrap(),
            isolated: CpuList::default(),
            rules: Rules::LINUX_6_12,
        };
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner) = machine.read().unwrap();
    }
}

impl Chains for &Fake {
    fn online(&self) -> Result<CpuList, SourceError> {
        *self.asked.lock().unwrap() += 1;
        self.tree.lock().unwrap().online()
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        *self.asked.lock().unwrap() += 1;
        self.tree.lock().unwrap().chain(cpu)
    }
}

fn fake() -> Fake {
    let fake = Fake::default();
    fake.set("0-7");
    fake
}

fn walk(files: &DomainFiles<&Fake>, path: &str) -> Result<Inode, FilesError> {
    let mut names = path.split('/');
    names.try_fold(Inode::Root, |inode, name| Ok(files.find(inode, name)?.0))
}

fn text(files: &DomainFiles<&Fake>, path: &str) -> Option<String> {
    files.read(walk(files, path).ok()?).ok()
}

#[test]
fn names_and_contents_match_the_kernel() {
    let fake = fake();
    let files = DomainFiles::new(&fake, Layout::Debugfs, None);
    let names = |path: &str| -> Vec<String> {
        let inode = if path.is_empty() {
            Inode::Root
        } else {
            walk(&files, path).unwrap()
        };
        let entries = files.list(inode).unwrap();
        assert!(entries.is_sorted_by_key(|(_, inode)| inode.number()));
        for (name, inode) in &entries {
            let (found, seen) = files.find(inode.parent(), name).unwrap();
            assert_eq!((found, seen.writable), (*inode, false));
            let text = files.read(*inode).unwrap_or_default();
            assert_eq!(seen.size, text.len() as u64);
        }
        entries.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("")[7], "cpu7");
    assert_eq!(names("cpu5"), ["domain0", "domain1"]);
    let mut found = names("cpu5/domain1");
    found.sort();
    let kernels = [
        "busy_factor",
        "cache_nice_tries",
        "flags",
        "groups_flags",
        "imbalance_pct",
        "level",
        "max_interval",
        "max_newidle_lb_cost",
        "min_interval",
        "name",
        "span",
    ];
    assert_eq!(found, kernels);
    assert_eq!(text(&files, "cpu5/domain0/span").as_deref(), Some("4-5\n"));
    assert_eq!(text(&files, "cpu5/domain1/name").as_deref(), Some("MC\n"));
    let flags = text(&files, "cpu5/domain1/flags").unwrap();
    assert!(flags.ends_with("SD_PREFER_SIBLING \n"), "{flags}");
}

#[test]
fn missing_names_are_not_found() {
    let fake = fake();
    let files = DomainFiles::new(&fake, Layout::Debugfs, None);
    for path in [
        "cpu8",
        "cpu",
        "cpu01",
        "cpu+1",
        "cpu4294967295",
        "domain0",
        "cpu0/domain2",
        "cpu0/domain256",
        "cpu0/flags",
        "cpu0/domain0/flag",
        "cpu0/domain0/flags/x",
    ] {
        assert!(
            matches!(walk(&files, path), Err(FilesError::Gone)),
            "{path}"
        );
    }
    assert!(matches!(files.read(Inode::Cpu(0)), Err(FilesError::Gone)));
    assert!(matches!(files.list(Inode::Cpu(9)), Err(FilesError::Gone)));
}

#[test]
fn offline_cpu_loses_its_directory_and_returns_with_the_same_inode() {
    let fake = fake();
    let files = DomainFiles::new(&fake, Layout::Debugfs, None);
    let inode = walk(&files, "cpu3/domain0/span").unwrap();
    fake.set("0-2,4-7");
    assert!(matches!(files.look(inode), Err(FilesError::Gone)));
    assert!(walk(&files, "cpu3").is_err());
    assert_eq!(files.list(Inode::Root).unwrap().len(), 7);
    // CPU 2 has lost its sibling: its smallest domain is a different one.
    assert_eq!(text(&files, "cpu2/domain0/name").as_deref(), Some("MC\n"));
    fake.set("0-7");
    assert_eq!(walk(&files, "cpu3/domain0/span").unwrap(), inode);
}

#[test]
fn domains_are_read_only_on_access() {
    let fake = fake();
    let files = DomainFiles::new(&fake, Layout::Debugfs, None);
    for online in ["0-3", "0-7", "0", "0-7"] {
        fake.set(online);
    }
    assert_eq!(*fake.asked.lock().unwrap(), 0);
    files.read(Inode::File(0, 0, 0)).unwrap();
    assert_eq!(*fake.asked.lock().unwrap(), 1);
}

#[test]
fn write_to_a_described_machine_is_rejected() {
    let fake = fake();
    let files = DomainFiles::new(&fake, Layout::Debugfs, None);
    assert!(!files.is_writable());
    let inode = walk(&files, "cpu0/domain0/imbalance_pct").unwrap();
    let error = files.write(inode, b"120\n").unwrap_err().to_string();
    assert!(
        error.contains("cpu0/domain0/imbalance_pct: the file is read-only"),
        "{error}"
    );
}
