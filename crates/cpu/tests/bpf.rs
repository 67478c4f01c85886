//! BPF reader of scheduler domains: with type tables that are sound, damaged, and of the
//! running kernel; and, where permitted, on the running kernel itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeMap;

use bigiron_cpu::System;
use bigiron_cpu::source::bpf::Layout;
use bigiron_cpu::source::{Bpf, Debugfs, DomainSource, Schedstat};

/// Type table in BTF (Documentation/bpf/btf.rst), built type by type.
#[derive(Default)]
struct Table {
    types: Vec<u32>,
    names: Vec<u8>,
    count: u32,
}

impl Table {
    /// Adds a type: its kind, and the words that follow the name.
    fn add(&mut self, name: &str, kind: u32, count: usize, words: &[u32]) -> u32 {
        let name = self.name(name);
        self.types.extend([name, kind << 24 | count as u32]);
        self.types.extend(words);
        self.count += 1;
        self.count
    }

    fn name(&mut self, name: &str) -> u32 {
        if self.names.is_empty() {
            self.names.push(0);
        }
        let at = self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        at
    }

    /// Adds a struct; members are name, type and offset in bytes.
    fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let mut words = vec![size];
        for (name, id, offset) in members {
            words.extend([self.name(name), *id, offset * 8]);
        }
        self.add(name, 4, members.len(), &words)
    }

    fn finish(self) -> Vec<u8> {
        let types = 4 * self.types.len() as u32;
        let header = [0x1_eb9f, 24, 0, types, types, self.names.len() as u32];
        let words = header.iter().chain(&self.types);
        let bytes = words.flat_map(|word| word.to_ne_bytes());
        bytes.chain(self.names).collect()
    }
}

/// Returns the types of a kernel with only what the reader requires.
fn types(has_span: bool) -> Vec<u8> {
    let mut table = Table::default();
    let int = table.add("int", 1, 0, &[4, 32]);
    let long = table.add("long", 1, 0, &[8, 64]);
    let pointer = table.add("", 2, 0, &[0]);
    let array = table.add("", 3, 0, &[0, long, int, 0]);
    table.structure(
        "sched_group",
        16,
        &[("next", pointer, 0), ("flags", int, 8)],
    );
    let mut members = vec![
        ("parent", pointer, 0),
        ("groups", pointer, 8),
        ("min_interval", long, 16),
        ("max_interval", long, 24),
        ("busy_factor", int, 32),
        ("imbalance_pct", int, 36),
        ("cache_nice_tries", int, 40),
        ("flags", int, 44),
        ("level", int, 48),
        ("max_newidle_lb_cost", long, 56),
        ("name", pointer, 64),
    ];
    if has_span {
        members.push(("span", array, 72));
    }
    table.structure("sched_domain", 72, &members);
    let queue = table.structure("rq", 64, &[("rd", pointer, 0), ("sd", pointer, 8)]);
    table.add("runqueues", 14, 0, &[queue, 1]);
    let (forks, numa) = (table.name("SD_BALANCE_FORK"), table.name("SD_NUMA"));
    table.add("", 6, 2, &[4, forks, 4, numa, 0x2000]);
    table.finish()
}

/// Returns what the program writes for two domains of a kernel with 65 CPUs.
fn left() -> Vec<u8> {
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    let pair = |low: u32, high: u32| [low.to_ne_bytes(), high.to_ne_bytes()].concat();
    let mut value = words(&[2, 0]);
    for (number, name) in [(0_u32, "SMT\0behind the end"), (1, "NUMA\0...........")] {
        value.extend(words(&[0x1000]));
        value.extend(pair(0x2000, 0));
        value.extend(name.bytes().take(16));
        value.extend(words(&[0x2000, 0x3000, 2, 4]));
        value.extend(pair(16, 117));
        value.extend(pair(1, 0x2004));
        value.extend(pair(number, 0));
        value.extend(words(&[1 << 40, 0xdead, 1 | 1 << 63, 1]));
    }
    value
}

#[test]
fn chain_is_read_at_the_offsets_of_the_types() {
    for has_span in [true, false] {
        let layout = Layout::of(types(has_span), 65).unwrap();
        let mut value = left();
        assert!(value.len() < layout.value_size());
        value.resize(layout.value_size(), 0xff);
        let chain = layout.chain(3, &value).unwrap();
        assert_eq!(chain.len(), 2);
        let files: BTreeMap<_, _> = chain[1].files().into_iter().collect();
        let expected = [
            ("name", "NUMA\n"),
            ("level", "1\n"),
            ("flags", "SD_BALANCE_FORK SD_NUMA \n"),
            ("groups_flags", "SD_NUMA \n"),
            ("span", "0,63-64\n"),
            ("min_interval", "2\n"),
            ("max_interval", "4\n"),
            ("busy_factor", "16\n"),
            ("imbalance_pct", "117\n"),
            ("cache_nice_tries", "1\n"),
            ("max_newidle_lb_cost", "1099511627776\n"),
        ];
        assert_eq!(files.len(), expected.len());
        for (name, text) in expected {
            assert_eq!(files[name], text, "{name}");
        }
        assert_eq!(chain[0].name.as_deref(), Some("SMT"));
        assert!(
            layout.chain(3, &value[..200]).is_err(),
            "the second domain is truncated"
        );
    }
}

#[test]
fn endless_chain_is_an_error() {
    let layout = Layout::of(types(true), 65).unwrap();
    let mut value = left();
    value[8] = 1;
    let error = layout.chain(3, &value).unwrap_err().to_string();
    assert!(
        error.contains("CPU 3") && error.contains("try again"),
        "{error}"
    );
    let mut value = left();
    value[0] = 0xff;
    assert!(layout.chain(3, &value).is_err());
    assert!(layout.chain(3, &[]).is_err());
    assert!(layout.chain(3, &[0; 16]).unwrap().is_empty());
}

#[test]
fn damaged_types_are_rejected_without_out_of_bounds_access() {
    let sound = types(true);
    let mut refused = 0;
    for at in (0..sound.len()).step_by(4) {
        for edit in [0_u32, 1, 7, 0xff, 0x8000, 0x1_0000, 0x7fff_fff8, u32::MAX] {
            let mut bytes = sound.clone();
            let Some(place) = bytes.get_mut(at..at + 4) else {
                continue;
            };
            place.copy_from_slice(&edit.to_ne_bytes());
            match Layout::of(bytes, 100) {
                Ok(layout) => {
                    assert!(layout.value_size() < 4 << 20);
                    let _ = layout.chain(0, &vec![0xff; layout.value_size()]);
                }
                Err(error) => {
                    refused += 1;
                    assert!(
                        error.to_string().contains("/sys/kernel/btf/vmlinux"),
                        "{error}"
                    );
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
    let most = Layout::of(sound, usize::MAX).unwrap().value_size();
    assert!(
        most < 4 << 20,
        "{most} bytes for the maximum number of CPUs"
    );
    let without = Table::default().finish();
    let error = Layout::of(without, 8).unwrap_err().to_string();
    assert!(error.contains("no struct sched_domain"), "{error}");
}

#[test]
fn types_of_the_running_kernel_are_sufficient() {
    let Ok(types) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        println!("skipped: this kernel has no /sys/kernel/btf/vmlinux");
        return;
    };
    let (few, many) = (Layout::of(types.clone(), 64), Layout::of(types, 8192));
    assert!(few.unwrap().value_size() < many.unwrap().value_size());
}

/// Threads that read different CPUs each receive their own chain, equal to the kernel's files.
#[test]
fn running_kernel_is_read_by_many_threads() {
    let bpf = match Bpf::load() {
        Ok(bpf) => bpf,
        Err(error) => return println!("skipped: {error}"),
    };
    let tree = bpf.read().unwrap();
    let online: Vec<u32> = System::running().online().unwrap().iter().collect();
    assert_eq!(tree.cpus.keys().copied().collect::<Vec<_>>(), online);
    let mark = |cpu| bpf.mark(cpu).unwrap();
    let marks: BTreeMap<u32, _> = online.iter().map(|cpu| (*cpu, mark(*cpu))).collect();
    std::thread::scope(|scope| {
        for cpu in &online {
            scope.spawn(|| {
                for _ in 0..200 {
                    let chain = bpf.chain(*cpu).unwrap();
                    assert!(chain.iter().all(|domain| domain.cpu == *cpu));
                    assert_eq!(chain.len(), tree.cpus[cpu].len());
                    let spans = chain.iter().map(|domain| &domain.span);
                    assert!(spans.eq(tree.cpus[cpu].iter().map(|domain| &domain.span)));
                    assert_eq!(bpf.mark(*cpu).unwrap(), marks[cpu]);
                }
            });
        }
    });
    assert!(
        bpf.chain(1 << 20).unwrap().is_empty(),
        "there is no such CPU"
    );
    if let Ok(stat) = Schedstat::running().read() {
        let spans = |tree: &bigiron_cpu::DomainTree| -> Vec<_> {
            let domains = tree.cpus.values().flatten();
            domains.map(|domain| domain.span.clone()).collect()
        };
        assert_eq!(spans(&stat), spans(&tree));
    }
    if let Ok(files) = Debugfs::running().read() {
        for (cpu, chain) in &files.cpus {
            let names = |chain: &[bigiron_cpu::SchedDomain]| -> Vec<_> {
                chain.iter().map(|domain| domain.name.clone()).collect()
            };
            let own = tree.cpus.get(cpu).map_or(Vec::new(), |chain| names(chain));
            assert_eq!(own, names(chain));
        }
    }
}
