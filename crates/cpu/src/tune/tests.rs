use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::build::Rules as Kernel;
use crate::domains::SchedDomain;
use crate::files::{DomainFiles, FilesError, Layout};
use crate::list::CpuList;
use crate::source::Chains;
use crate::source::{Debugfs, DomainSource, Machine, SourceError};
use crate::topology::Topology;
use crate::tree::DomainTree;

/// Kernel in a directory. Its domains are in `memory`, and visible in `sched/domains` while
/// `sched/verbose` is Y.
struct Kernelish {
    directory: tempfile::TempDir,
    shown: Arc<AtomicUsize>,
}

/// Shows the domains as the kernel does.
struct Switch(PathBuf, Arc<AtomicUsize>);

impl TemporarySettings for Switch {
    fn set(&self, file: &Path, value: &str) -> Result<Box<dyn RestoreSetting>, String> {
        assert_eq!(file, self.0.join("sched/verbose"));
        fs::write(file, value).unwrap();
        symlink(self.0.join("memory"), self.0.join("sched/domains")).unwrap();
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Switch(self.0.clone(), Arc::clone(&self.1))))
    }
}

impl RestoreSetting for Switch {
    fn restore(self: Box<Self>) -> Result<(), String> {
        fs::remove_file(self.0.join("sched/domains")).unwrap();
        fs::write(self.0.join("sched/verbose"), "N\n").unwrap();
        Ok(())
    }
}

impl Kernelish {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sched")).unwrap();
        fs::write(directory.path().join("sched/verbose"), "N\n").unwrap();
        let kernel = Self {
            directory,
            shown: Arc::default(),
        };
        kernel.build("0-7");
        kernel
    }

    fn memory(&self) -> PathBuf {
        self.directory.path().join("memory")
    }

    fn tree(online: &str) -> DomainTree {
        let machine = Machine {
            description: "eight".into(),
            topology: Topology::from_text("cores=4 threads=2").unwrap(),
            online: online.parse().unwrap(),
            isolated: CpuList::default(),
            rules: Kernel::LINUX_6_12,
        };
        machine.read().unwrap()
    }

    /// Rebuilds all domains with the kernel's own values.
    fn build(&self, online: &str) {
        let _ = fs::remove_dir_all(self.memory());
        for (cpu, chain) in Self::tree(online).cpus {
            for domain in chain {
                let number = domain.number;
                let path = self.memory().join(format!("cpu{cpu}/domain{number}"));
                fs::create_dir_all(&path).unwrap();
                for (name, text) in domain.files() {
                    fs::write(path.join(name), text).unwrap();
                }
            }
        }
    }

    fn tuner(&self) -> Tuner {
        let switch = Switch(self.directory.path().into(), Arc::clone(&self.shown));
        Tuner::at(self.directory.path().join("sched"), "/nonexistent", switch)
    }

    fn verbose(&self) -> String {
        fs::read_to_string(self.directory.path().join("sched/verbose")).unwrap()
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.memory().join(path)).unwrap()
    }
}

impl Chains for &Kernelish {
    fn online(&self) -> Result<CpuList, SourceError> {
        Ok(self.read()?.cpus.keys().copied().collect())
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        let mut chain = DomainSource::chain(&Debugfs::at(self.memory()), cpu)?;
        for domain in &mut chain {
            // BPF provides spans; the kernel's files do not.
            let span = self.text(&format!("cpu{cpu}/domain{}/span", domain.number));
            domain.span = Some(span.parse().unwrap());
        }
        Ok(chain)
    }
}

impl DomainSource for &Kernelish {
    fn read(&self) -> Result<DomainTree, SourceError> {
        Debugfs::at(self.memory()).read()
    }
}

fn rules(json: &str) -> Rules {
    serde_json::from_str(json).unwrap()
}

#[test]
fn numbers_are_parsed_as_by_the_kernels_files() {
    let value = |tunable: Tunable, text: &str| tunable.parse(text.as_bytes()).ok();
    let most = Tunable::ImbalancePct;
    for (text, right) in [
        ("117", Some(117)),
        ("117\n", Some(117)),
        ("0x75\n", Some(117)),
        ("0165", Some(117)),
        ("0", Some(0)),
        ("+5", Some(5)),
        ("4294967295", Some(4_294_967_295)),
        ("4294967296", None),
        ("117\n\n", None),
        (" 117", None),
        ("-1", None),
        ("", None),
        ("\n", None),
        ("1.5", None),
        ("++5", None),
        ("0x", None),
        ("08", None),
    ] {
        assert_eq!(value(most, text), right, "{text:?}");
    }
    let long = "18446744073709551615";
    assert_eq!(value(Tunable::MaxInterval, long), Some(u64::MAX));
    assert_eq!(value(Tunable::MaxInterval, &format!("{long}0")), None);
    let why = most.parse(b"much").unwrap_err().to_string();
    assert_eq!(why, "\"much\": expected a number from 0 to 4294967295");
}

#[test]
fn write_sets_the_kernels_value_and_hides_its_files_again() {
    let kernel = Kernelish::new();
    let files = DomainFiles::new(&kernel, Layout::Debugfs, Some(kernel.tuner()));
    let inode = |name: &str| {
        let (cpu, _) = files.find(crate::files::Inode::Root, "cpu3").unwrap();
        let (domain, _) = files.find(cpu, "domain1").unwrap();
        files.find(domain, name).unwrap()
    };
    let (file, seen) = inode("imbalance_pct");
    assert!(seen.writable && seen.size == 4);
    assert!(!inode("flags").1.writable && !inode("max_newidle_lb_cost").1.writable);
    files.write(file, b"125\n").unwrap();
    assert_eq!(kernel.text("cpu3/domain1/imbalance_pct"), "125\n");
    assert_eq!(kernel.text("cpu2/domain1/imbalance_pct"), "117\n");
    assert_eq!(files.read(file).unwrap(), "125\n");
    assert_eq!(kernel.verbose(), "N\n");
    // An invalid number never reaches the kernel.
    let error = files.write(file, b"many\n").unwrap_err();
    let wrong = "cpu3/domain1/imbalance_pct: \"many\\n\": expected a number from 0 to 4294967295";
    assert_eq!(error.to_string(), wrong);
    assert_eq!(kernel.shown.load(Ordering::Relaxed), 1);
    let flags = files.write(inode("flags").0, b"1").unwrap_err();
    assert!(matches!(flags, FilesError::ReadOnly { .. }));
}

#[test]
fn missing_kernel_files_are_reported() {
    let kernel = Kernelish::new();
    fs::remove_file(kernel.directory.path().join("sched/verbose")).unwrap();
    let chains = &kernel;
    let domain = &Chains::chain(&chains, 0).unwrap()[0];
    let change = Change::of(domain, Tunable::BusyFactor, 8);
    let error = kernel.tuner().write(&chains, &[change]).unwrap_err();
    assert!(error.to_string().contains("debugfs=off"), "{error}");
}

#[test]
fn replaced_domain_is_not_written() {
    let kernel = Kernelish::new();
    let chains = &kernel;
    let domain = &Chains::chain(&chains, 2).unwrap()[0];
    assert_eq!(domain.title(), "SMT");
    let change = Change::of(domain, Tunable::BusyFactor, 8);
    kernel.build("0-2,4-7");
    let results = kernel.tuner().write(&chains, &[change]).unwrap();
    let [Err(TuneError::Rebuilt { what })] = &results[..] else {
        panic!("{results:?}");
    };
    assert_eq!(what, "cpu2/domain0/busy_factor");
    assert_eq!(kernel.text("cpu2/domain0/busy_factor"), "16\n");
    assert_eq!(kernel.verbose(), "N\n");
}

#[test]
fn rule_applies_to_all_domains_of_a_name_and_later_rules_override() {
    let kernel = Kernelish::new();
    let chains = &kernel;
    let rules = rules(
        r#"{"rules": [
            {"domain": "MC", "imbalance_pct": 125, "busy_factor": 16},
            {"domain": "MC", "cpus": "0-1,9", "imbalance_pct": 130},
            {"domain": "PKG", "cache_nice_tries": 3}
        ]}"#,
    );
    let before = plan(&rules, &chains).unwrap();
    assert_eq!((before.changes.len(), before.already), (8, 8));
    let gone = [
        "domain MC of CPUs 0-1,9: not found on CPUs 9",
        "domain PKG: not found",
    ];
    assert_eq!(before.gone, gone);
    let results = kernel.tuner().write(&chains, &before.changes).unwrap();
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(kernel.shown.load(Ordering::Relaxed), 1);
    assert_eq!(kernel.text("cpu1/domain1/imbalance_pct"), "130\n");
    assert_eq!(kernel.text("cpu7/domain1/imbalance_pct"), "125\n");
    let after = plan(&rules, &chains).unwrap();
    assert_eq!((after.changes.len(), after.already), (0, 16));
}

#[test]
fn saved_values_are_restored_after_a_rebuild() {
    let kernel = Kernelish::new();
    let chains = &kernel;
    let untouched = save(&chains, None, SavedValues::Changed).unwrap();
    assert_eq!(untouched.rules, []);
    let wanted = r#"{"rules":[{"domain":"MC","imbalance_pct":125},{"domain":"SMT","cpus":"2-3","min_interval":7}]}"#;
    let apply = |rules: &Rules| {
        let changes = plan(rules, &chains).unwrap().changes;
        let results = kernel.tuner().write(&chains, &changes).unwrap();
        assert!(results.iter().all(Result::is_ok));
        changes.len()
    };
    assert_eq!(apply(&rules(wanted)), 10);
    let saved = save(&chains, None, SavedValues::Changed).unwrap();
    assert_eq!(serde_json::to_string(&saved).unwrap(), wanted);
    let all = save(&chains, None, SavedValues::All).unwrap();
    kernel.build("0-6");
    kernel.build("0-7");
    assert_eq!(save(&chains, None, SavedValues::Changed).unwrap().rules, []);
    assert_eq!(apply(&saved), 10);
    assert_eq!(save(&chains, None, SavedValues::Changed).unwrap(), saved);
    assert_eq!(apply(&all), 0);
}

#[test]
fn intervals_that_count_isolated_cpus_are_not_saved() {
    let built = Kernelish::tree("0-7");
    let mut apart = built.clone();
    apart.cpus.retain(|cpu, _| *cpu < 4);
    for domain in apart.cpus.values_mut().flatten() {
        domain.span = Some(domain.span.take().unwrap().and(&"0-3".parse().unwrap()));
    }
    let named = |built| {
        let rules = save(&apart, built, SavedValues::Changed).unwrap().rules;
        let names = rules.into_iter().map(|rule| rule.domain.unwrap());
        names.collect::<Vec<_>>()
    };
    assert_eq!(named(Some(&built)), [""; 0]);
    assert_eq!(named(None), ["MC"]);
}

#[test]
fn levels_with_the_same_name_are_distinguished_by_number() {
    let topology = "sockets=4 distances=10,20,30,40;20,10,20,30;30,20,10,20;40,30,20,10";
    let machine = Machine {
        description: String::new(),
        topology: Topology::from_text(topology).unwrap(),
        online: "0-3".parse().unwrap(),
        isolated: CpuList::default(),
        rules: Kernel::LINUX_6_12,
    };
    let mut tree = machine.read().unwrap();
    for chain in tree.cpus.values_mut() {
        chain
            .last_mut()
            .unwrap()
            .tunables
            .as_mut()
            .unwrap()
            .busy_factor = 32;
    }
    let rules = save(&tree, None, SavedValues::Changed).unwrap();
    assert!(rules.rules.iter().all(|rule| rule.level.is_some()));
    assert_eq!(plan(&rules, &tree).unwrap().changes, []);
}

#[test]
fn rule_without_values_or_with_an_unknown_word_is_rejected() {
    let fault = rules(r#"{"rules": [{"domain": "MC"}]}"#).fault().unwrap();
    assert!(fault.contains("rule 1 sets nothing"), "{fault}");
    assert!(fault.contains("imbalance_pct"));
    for wrong in [
        r#"{"rules": [{"domain": "MC", "imbalance": 1}]}"#,
        r#"{"rules": [{"domain": "MC", "imbalance_pct": -1}]}"#,
        r#"{"rules": [{"imbalance_pct": 4294967296}]}"#,
        r#"[{"imbalance_pct": 117}]"#,
    ] {
        assert!(serde_json::from_str::<Rules>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn watch_reports_a_rebuild_once() {
    let kernel = Kernelish::new();
    let chains = &kernel;
    let mut watch = Watch::default();
    assert!(watch.look(&chains).unwrap());
    assert!(!watch.look(&chains).unwrap());
    kernel.build("0-6");
    assert!(watch.look(&chains).unwrap());
    assert!(!watch.look(&chains).unwrap());
    // Values that change by themselves are not a rebuild.
    fs::write(
        kernel.memory().join("cpu0/domain0/max_newidle_lb_cost"),
        "99\n",
    )
    .unwrap();
    assert!(!watch.look(&chains).unwrap());
}
