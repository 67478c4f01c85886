//! `bigiron read` and `bigiron info --modules`, on the vmcore that ships with the
//! project, and on copies of it with corrupt modules and types.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::sample;
use crate::common::{Lab, arg, run};
use serde_json::{Value, json};

/// Returns the value that `bigiron read --json` prints.
fn value(dump: &Path, arguments: &[&str]) -> Value {
    let all = [&["read", "--json", arg(dump)][..], arguments].concat();
    serde_json::from_slice(&run(&all).code(0).stdout).unwrap()
}

/// A copy of the sample in which bytes of the kernel's memory can be changed.
struct Lying {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Lying {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = sample::unpack(directory.path());
        Self {
            _directory: directory,
            path,
        }
    }

    /// Returns the address of an expression of `bigiron read`.
    fn address(&self, arguments: &[&str]) -> u64 {
        let found = value(&self.path, arguments);
        let address = found["address"].as_str().unwrap();
        u64::from_str_radix(address.strip_prefix("0x").unwrap(), 16).unwrap()
    }

    /// Overwrites the bytes at an expression: the program headers locate physical memory
    /// in the file, and the page tables translate the address.
    fn put(&self, arguments: &[&str], bytes: &[u8]) {
        let address = self.address(arguments);
        let source = bigiron_kernel::Source::open(std::slice::from_ref(&self.path)).unwrap();
        let method = bigiron_kernel::IoMethod::Read;
        let kernel = bigiron_kernel::Kernel::find(&source, None, method, 8).unwrap();
        let leaf = kernel.translate(bigiron_format::VirtAddr(address)).unwrap();
        let physical = leaf.unwrap().physical.0;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.path)
            .unwrap();
        let field = |at: u64, len: usize| {
            let mut word = [0; 8];
            file.read_exact_at(&mut word[..len], at).unwrap();
            u64::from_le_bytes(word)
        };
        let (first, count) = (field(32, 8), field(56, 2));
        let offset = (0..count)
            .map(|index| first + 56 * index)
            .find_map(|header| {
                let start = field(header + 24, 8);
                let inside = physical.checked_sub(start)?;
                let is_load = field(header, 4) == 1 && inside < field(header + 32, 8);
                is_load.then(|| field(header + 8, 8) + inside)
            });
        file.write_all_at(bytes, offset.unwrap()).unwrap();
    }
}

#[test]
fn values_are_printed_by_type_and_paths_select_members() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let comm = value(&vmcore, &["init_task.comm"]);
    assert_eq!(
        (&comm["kind"], &comm["text"]),
        (&json!("text"), &json!("swapper/0"))
    );
    assert_eq!(value(&vmcore, &["init_task->real_parent->comm"]), {
        let mut same = comm.clone();
        same["place"] = "init_task->real_parent->comm".into();
        same
    });
    // The run queue of each CPU contains the number of the CPU.
    for cpu in [0, 1] {
        let place = format!("runqueues@{cpu}.cpu");
        assert_eq!(value(&vmcore, &[&place])["value"], cpu);
        let by_option = value(&vmcore, &["runqueues.cpu", "--cpu", &cpu.to_string()]);
        assert_eq!(by_option["value"], cpu);
    }
    // The list is circular: the successor of an entry's predecessor is the entry.
    let there = value(&vmcore, &["modules.next->prev->next"]);
    assert_eq!(there["value"], value(&vmcore, &["modules.next"])["value"]);
    let symbol = value(&vmcore, &["modules.next->prev"]);
    assert_eq!(symbol["symbol"], "modules");
    let names = value(&vmcore, &["init_uts_ns.name"]);
    let member = |name: &str| {
        let members = names["members"].as_array().unwrap();
        members
            .iter()
            .find(|member| member["name"] == name)
            .unwrap()["text"]
            .clone()
    };
    assert_eq!(member("sysname"), "Linux");
    assert_eq!(member("machine"), "x86_64");
    let state = value(&vmcore, &["init_task.vtime.state"]);
    assert_eq!(state["kind"], "enumeration");
    assert!(state["enumerator"].as_str().unwrap().starts_with("VTIME_"));
    let text = run(&["read", arg(&vmcore), "init_task", "--depth", "0"])
        .code(0)
        .text();
    assert!(
        text.starts_with("// struct task_struct at ffffffff"),
        "{text}"
    );
    assert!(text.contains("\n    .comm = \"swapper/0\",\n"), "{text}");
    assert!(text.contains("\n    .se = {...},\n"), "{text}");
}

#[test]
fn bytes_are_printed_and_written_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let vmcore = arg(&vmcore);
    let raw = run(&["read", vmcore, "linux_banner", "--raw", "-n", "13"]).code(0);
    assert_eq!(raw.stdout, b"Linux version");
    let shown = run(&["read", vmcore, "linux_banner", "-n", "13"])
        .code(0)
        .text();
    assert!(shown.contains("4c 69 6e 75 78 20 76 65"), "{shown}");
    assert!(shown.trim_end().ends_with("|Linux version   |"), "{shown}");
    // The same bytes by their physical address.
    let address = run(&["sym", vmcore, "linux_banner"]).code(0).text();
    let address = address.split(' ').next().unwrap();
    let again = run(&["read", vmcore, address, "--raw", "-n", "13"]).code(0);
    assert_eq!(again.stdout, raw.stdout);
    run(&["read", vmcore, "0"])
        .code(1)
        .says(&["256 of 256 bytes"]);
    run(&["read", vmcore, "0", "--raw"])
        .code(1)
        .says(&["not mapped; 0 bytes were written"]);
}

#[test]
fn invalid_expressions_are_rejected_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    for (arguments, told) in [
        (
            &["no_such_symbol"][..],
            "neither the kernel nor a module has a symbol no_such_symbol",
        ),
        (
            &["init_task.no_such"],
            "struct task_struct has no member no_such",
        ),
        (&["init_task.comm[16]"], "[16] of 16 elements"),
        (&["init_task.comm[x]"], "[x] is not a number"),
        (&["init_task.mm->pgd"], "is NULL"),
        (&["init_task", "no_such_type"], "has a type no_such_type"),
        (&["runqueues"], "name the CPU: runqueues@0"),
        (&["runqueues@2"], "CPU 2 of 2"),
        (&["init_task@0"], "init_task is not per CPU"),
        (&["linux_banner.x"], "its type is unknown"),
        (&["linux_banner", "--json"], "requires a TYPE"),
    ] {
        let all = [&["read", arg(&vmcore)][..], arguments].concat();
        run(&all).code(1).says(&[told, "sample"]);
    }
    let lab = Lab::new();
    run(&["read", arg(lab.vmcore()), "init_task"])
        .code(1)
        .says(&["names no kallsyms"]);
    // Bytes at an address need no names.
    run(&[
        "read",
        arg(lab.vmcore()),
        "100000",
        "--physical",
        "--raw",
        "-n",
        "4K",
    ])
    .code(0);
}

#[test]
fn missing_pages_affect_only_the_values_in_them() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let dump = directory.path().join("dump");
    run(&["dump", "-q", "-d", "31", arg(&vmcore), arg(&dump)]).code(0);
    let base = value(&vmcore, &["page_offset_base", "u64"])["value"]
        .as_u64()
        .unwrap();
    // The first anonymous page that the guest created, and the page before it.
    let pages = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../samples/linux-6.1-5level.pages.txt"
    );
    let pages = fs::read_to_string(pages).unwrap();
    let range = pages
        .lines()
        .find_map(|line| line.strip_prefix("anon "))
        .unwrap();
    let frame: u64 = range.split('-').next().unwrap().parse().unwrap();
    let address = format!("{:x}", base + (frame << 12));
    let whole = value(&vmcore, &[&address, "u64[512]"]);
    assert_eq!(whole["kind"], "array");
    assert_ne!(whole["elements"][0]["kind"], "unread");
    let parts = value(&dump, &[&address, "u64[512]"]);
    assert_eq!(
        parts["elements"],
        json!([{
            "times": 512,
            "kind": "unread",
            "reason": format!("page frame {frame:#x} is not in the dump"),
        }])
    );
    let lines = run(&["read", arg(&dump), &address, "-n", "16"]).code(1);
    assert!(
        lines.text().contains("16 bytes: page frame"),
        "{}",
        lines.text()
    );
    // Everything else is unchanged.
    let task = |dump| run(&["read", arg(dump), "init_task"]).code(0).text();
    assert_eq!(task(&dump), task(&vmcore));
}

#[test]
fn modules_are_listed_with_their_users() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let vmcore = arg(&vmcore);
    let said = run(&["info", "--json", "--modules", vmcore]).code(0);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let list = said["modules"]["list"].as_array().unwrap();
    let ring = list
        .iter()
        .find(|module| module["name"] == "virtio_ring")
        .unwrap();
    assert_eq!(ring["state"], "live");
    assert_eq!(ring["used_by"].as_array().unwrap().len(), 4);
    assert_eq!(ring["references"], 4);
    assert_eq!(ring["build_id"].as_str().unwrap().len(), 40);
    assert!(ring.get("missing").is_none(), "{ring}");
    let page = run(&["info", "--modules", vmcore]).code(0).text();
    assert!(page.contains("\nmodules: 8, 200.0 KiB\n"), "{page}");
    let line = run(&["sym", vmcore, "virtblk_probe"]).code(0).text();
    let (address, rest) = line.split_once(' ').unwrap();
    assert_eq!(rest, "(t) virtblk_probe [virtio_blk]\n");
    assert_eq!(run(&["sym", vmcore, address]).code(0).text(), line);
    let block = run(&["type", vmcore, "virtio_blk"]).code(0).text();
    assert!(block.starts_with("struct virtio_blk {\n"), "{block}");
    assert!(
        block.contains("    struct virtio_device *vdev;\n"),
        "{block}"
    );
    assert!(
        block.ends_with(" bytes, of the module virtio_blk\n"),
        "{block}"
    );
}

#[test]
fn functions_are_printed_with_their_parameters() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let text = run(&["type", arg(&vmcore), "vfs_read", "panic()"])
        .code(0)
        .text();
    let expected = "ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos);\n\
                    void panic(const char *fmt, ...);\n";
    assert_eq!(text, expected);
    let operations = run(&["type", arg(&vmcore), "file_operations"])
        .code(0)
        .text();
    assert!(
        operations.contains("    int (*open)(struct inode *, struct file *);\n"),
        "{operations}"
    );
}

#[test]
fn circular_module_list_ends_with_a_warning() {
    let lying = Lying::new();
    // The second module is followed by the first.
    let first = value(&lying.path, &["modules.next"])["value"]
        .as_str()
        .unwrap()
        .to_owned();
    let first = u64::from_str_radix(first.strip_prefix("0x").unwrap(), 16).unwrap();
    lying.put(&["modules.next->next->next"], &first.to_le_bytes());
    let said = run(&["info", "--json", "--modules", arg(&lying.path)]).code(0);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["modules"]["list"].as_array().unwrap().len(), 2);
    let missing = said["modules"]["missing"].as_str().unwrap();
    assert!(missing.contains("cyclic"), "{missing}");
    run(&["sym", arg(&lying.path), "virtqueue_kick"])
        .code(1)
        .says(&["not all modules are known"]);
}

#[test]
fn corrupt_tables_of_a_module_affect_only_that_module() {
    let lying = Lying::new();
    let said = run(&["info", "--json", "--modules", arg(&lying.path)]).code(0);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let list = said["modules"]["list"].as_array().unwrap();
    let block = list
        .iter()
        .find(|module| module["name"] == "virtio_blk")
        .unwrap();
    let block = block["address"].as_str().unwrap();
    // The largest possible number of symbols, and names at an invalid address.
    let path = format!("{block}->kallsyms->num_symtab");
    lying.put(&[&path, "module"], &[0xff; 4]);
    let path = format!("{block}.taints");
    lying.put(&[&path, "module"], &[0xff; 8]);
    let path = format!("{block}.source_list.next");
    lying.put(&[&path, "module"], &[0x11; 8]);
    let path = arg(&lying.path);
    run(&["sym", path, "virtblk_probe"]).code(0);
    run(&["sym", path, "virtqueue_kick"]).code(0);
    let page = run(&["info", "--modules", path]).code(0).text();
    assert!(page.contains("virtio_blk: used by: "), "{page}");
    assert!(page.contains("PFSRMBUDAWCIOELKXTNJ????"), "{page}");
    // A type table larger than memory.
    let is_found = |name: &str| run(&["type", path, name]).code == Some(0);
    assert!(TYPES.iter().all(|name| is_found(name)));
    let table = ["btf_modules.next->next"];
    let entry = value(&lying.path, &table)["value"]
        .as_str()
        .unwrap()
        .to_owned();
    let size = format!("{entry}.btf->data_size");
    lying.put(&[&size, "btf_module"], &[0xff; 4]);
    let told = "the types of virtio_balloon are not known: ";
    run(&["type", path, "no_such"])
        .code(1)
        .says(&[told, "4294967295 bytes"]);
    let still = TYPES.iter().filter(|name| is_found(name)).count();
    assert_eq!(still, TYPES.len() - 1);
}

/// One type of each of four modules.
const TYPES: [&str; 4] = [
    "fw_cfg_sysfs_entry",
    "virtio_balloon",
    "virtio_blk",
    "vring_virtqueue",
];
