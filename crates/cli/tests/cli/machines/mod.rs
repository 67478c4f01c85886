//! Machines of every architecture: other page sizes, the other byte order, RAM that does not begin
//! at 0. They have symbols, types, tasks, a module and counters, whose values are known here.

use std::fs;
use std::path::PathBuf;

use bigiron_synth::{ByteOrder, ElfShape, Machine, NamedMachine, Synth, TinyTypes};

use crate::common::{arg, run};

/// The machines: the words after `arch`, the name in `uname -m`, log2 of the page size, and where RAM begins.
const MACHINES: [(&str, &str, u32, u64); 9] = [
    ("arm64 bits=52", "aarch64", 12, 1 << 30),
    ("arm64 pages=16k", "aarch64", 14, 1 << 30),
    ("arm64 pages=64k bits=52", "aarch64", 16, 1 << 30),
    ("ppc64le", "ppc64le", 16, 0),
    ("ppc64le pages=4k mmu=hash", "ppc64le", 12, 0),
    ("ppc64", "ppc64", 16, 0),
    ("s390x", "s390x", 12, 0),
    ("riscv64 bits=57", "riscv64", 12, 2 << 30),
    ("loongarch64", "loongarch64", 14, 0),
];

/// Bytes of RAM.
pub const RAM: u64 = 64 << 20;
/// Pages of each class, and the first page frame of each kind, counted from the start of RAM.
pub const FREE: u64 = 32;
pub const CACHE: u64 = 16 + 4;
pub const USER: u64 = 70;
const NAMES: u64 = 0x300;
pub const PLAIN: u64 = 0x320;
/// Calls on the stack of the CPU.
pub const CALLS: usize = 6;
/// Records of the kernel log.
pub const LOG: usize = 20;
/// Values in the machine's memory.
pub const FREE_COUNTER: u64 = 0x1234;
pub const MODULE_BASE: u64 = 0xffff_8000_0123_0000;
pub const MODULE_SIZE: u64 = 0x6000;

/// A machine, its ELF core, and a directory for dumps of it.
pub struct Lab {
    pub name: &'static str,
    pub page_shift: u32,
    first: u64,
    pub machine: Machine,
    directory: tempfile::TempDir,
    pub core: PathBuf,
}

impl Lab {
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The number of a page frame that is counted from the start of RAM.
    pub fn frame(&self, frame: u64) -> u64 {
        self.first + frame
    }

    #[track_caller]
    pub fn dump(&self, name: &str, options: &[&str]) -> PathBuf {
        let output = self.path(name);
        let words = [&["dump", "-q"], options, &[arg(&self.core), arg(&output)]];
        run(&words.concat()).code(0);
        output
    }

    /// Writes the core of the machine with one byte changed in a page frame.
    pub fn changed(&self, name: &str, frame: u64) -> PathBuf {
        let mut machine = self.machine.clone();
        let at = (frame << self.page_shift) + 100;
        let byte = machine.read(at, 1).unwrap()[0];
        machine.write(at, &[byte ^ 1]).unwrap();
        let path = self.path(name);
        fs::write(&path, machine.elf(&ElfShape::vmcore())).unwrap();
        path
    }
}

pub fn each(check: impl Fn(&Lab)) {
    each_of(&MACHINES, check);
}

pub fn each_of(machines: &[(&'static str, &'static str, u32, u64)], check: impl Fn(&Lab)) {
    for (text, name, page_shift, start) in machines.iter().copied() {
        println!("{text}");
        let first = start >> page_shift;
        let last = first + (RAM >> page_shift) - 1;
        let at = |frame: u64| first + frame;
        let text = format!(
            "arch {text}\nkernel 6.12 stack={CALLS}\nram {first:#x}-{last:#x}\n\
             pages {:#x} free order=5 ; {:#x} cache n=16 ; {:#x} cache private n=4\n\
             pages {:#x} anon n={USER} ; {:#x} reserved n=16 ; {:#x} slab n=4 fill=random\n\
             log lockless n={LOG}\n",
            at(0x200),
            at(0x240),
            at(0x260),
            at(0x280),
            at(NAMES),
            at(PLAIN),
        );
        let machine = Synth::from_text(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let machine = named(machine, at(NAMES));
        let directory = tempfile::tempdir().unwrap();
        let core = directory.path().join("vmcore");
        fs::write(&core, machine.elf(&ElfShape::vmcore())).unwrap();
        check(&Lab {
            name,
            page_shift,
            first,
            machine,
            directory,
            core,
        });
    }
}

/// The fields of a struct in memory.
struct Fields {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Fields {
    fn int(&mut self, at: usize, value: u32) -> &mut Self {
        self.bytes[at..at + 4].copy_from_slice(&self.order.u32(value));
        self
    }

    fn long(&mut self, at: usize, value: u64) -> &mut Self {
        self.bytes[at..at + 8].copy_from_slice(&self.order.u64(value));
        self
    }

    fn text(&mut self, at: usize, text: &str) -> &mut Self {
        self.bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        self
    }
}

const TASK: u64 = 128;
const MODULE: u64 = 96;

fn types() -> TinyTypes {
    let mut types = TinyTypes::default();
    let int = types.integer("int", 4);
    let long = types.integer("long", 8);
    let char = types.integer("char", 1);
    let list = types.structure("list_head", 16, &[("next", long, 0), ("prev", long, 8)]);
    let comm = types.array(char, 16);
    types.structure("signal_struct", 16, &[("thread_head", list, 0)]);
    let members = [
        ("tasks", list, 0),
        ("mm", long, 16),
        ("signal", long, 24),
        ("real_parent", long, 32),
        ("pid", int, 40),
        ("tgid", int, 44),
        ("flags", int, 48),
        ("__state", int, 52),
        ("exit_state", int, 56),
        ("on_cpu", int, 60),
        ("comm", comm, 64),
        ("thread_node", list, 80),
        ("cpu", int, 96),
    ];
    let task = types.structure("task_struct", TASK as u32, &members);
    // A variable: kind 14, global.
    types.add("init_task", 14 << 24, task, &[1]);
    types.structure("rq", 16, &[("curr", long, 0), ("idle", long, 8)]);
    let values = [("MODULE_STATE_LIVE", 0), ("MODULE_STATE_GOING", 2)];
    let state = types.enumeration("module_state", &values);
    let name = types.array(char, 16);
    let counter = types.structure("atomic_t", 4, &[("counter", int, 0)]);
    let layout = types.structure("module_layout", 16, &[("base", long, 0), ("size", int, 8)]);
    let members = [
        ("state", state, 0),
        ("list", list, 8),
        ("name", name, 24),
        ("taints", long, 40),
        ("core_layout", layout, 48),
        ("init_layout", layout, 64),
        ("refcnt", counter, 80),
    ];
    types.structure("module", MODULE as u32, &members);
    let counters = [("NR_FREE_PAGES", 0), ("NR_MLOCK", 1)];
    types.enumeration("zone_stat_item", &counters);
    types.enumeration("node_stat_item", &[("NR_FILE_PAGES", 0)]);
    types
}

/// Puts two tasks, a module and counters into the machine, with the symbols and types for them.
fn named(machine: Machine, pfn: u64) -> Machine {
    let text = machine.image().0.start;
    // A function begins before each address on the stack.
    let starts = machine.stack(0).iter().map(|call| call / 64 * 64 - 12);
    let functions = starts.enumerate();
    let functions: Vec<_> = functions
        .map(|(index, start)| (format!("Tcall{index}"), start))
        .collect();
    let mut machine = NamedMachine::new(machine, pfn).unwrap();
    let order = machine.order();
    let fields = |size: u64| Fields {
        order,
        bytes: vec![0; size as usize],
    };
    let signals = [machine.next(), machine.next() + 64];
    let tasks = [signals[1] + 64, signals[1] + 64 + TASK];
    for (task, signal) in tasks.iter().zip(signals) {
        let link = task + 80;
        let put = machine.put(&fields(16).long(0, link).long(8, link).bytes);
        assert_eq!(put.unwrap(), signal);
    }
    for (index, name) in ["swapper/0", "worker"].iter().enumerate() {
        let (other, pid) = (tasks[1 - index], index as u32);
        let head = signals[index];
        let mut task = fields(TASK);
        task.long(0, other).long(8, other).long(24, signals[index]);
        // PF_KTHREAD.
        task.long(32, tasks[0]).int(40, pid).int(44, pid);
        task.int(48, 0x20_0000).int(60, 1 - pid).text(64, name);
        task.long(80, head).long(88, head);
        assert_eq!(machine.put(&task.bytes).unwrap(), tasks[index]);
    }
    let queue = machine.put(&fields(16).long(0, tasks[0]).long(8, tasks[0]).bytes);
    let (module, modules) = (machine.next(), machine.next() + 128);
    let mut made = fields(128);
    made.long(8, modules)
        .long(16, modules)
        .text(24, "virtio_lab");
    made.long(40, 1 << 12).long(48, MODULE_BASE);
    made.int(56, MODULE_SIZE as u32).int(80, 4);
    machine.put(&made.bytes).unwrap();
    let link = module + 8;
    let head = machine.put(&fields(16).long(0, link).long(8, link).bytes);
    assert_eq!(head.unwrap(), modules);
    let zones = machine
        .put(&fields(16).long(0, FREE_COUNTER).bytes)
        .unwrap();
    let nodes = machine.put(&fields(8).long(0, CACHE).bytes).unwrap();
    let symbols = [
        ("Tschedule", text + 0x20),
        ("Dinit_task", tasks[0]),
        ("Drunqueues", queue.unwrap()),
        ("dmodules", modules),
        ("Dvm_zone_stat", zones),
        ("Dvm_node_stat", nodes),
    ];
    let functions = functions.iter().map(|(name, at)| (name.as_str(), *at));
    let symbols: Vec<_> = symbols.into_iter().chain(functions).collect();
    let types = types().bytes(order);
    machine.names(&types, &symbols).unwrap();
    machine.machine()
}
