//! Writes small initial inputs for the fuzz targets: `fuzz_seeds DIR` fills DIR/TARGET for the
//! targets whose inputs have a format. See scripts/fuzz.

#![allow(clippy::expect_used, reason = "a tool that cannot go on should panic")]

use std::fs;
use std::path::Path;

use bigiron_format::codec::{Codec, Compression};
use bigiron_format::device::{BlockPosition, CONTENTS_OFFSET, ContentsKind, DeviceHeader, DumpId};
use bigiron_format::elf::write::CoreLayout;
use bigiron_format::elf::{LoadSegment, MACHINE_X86_64, note};
use bigiron_format::kdump::{
    DESCRIPTOR_SIZE, KdumpHeaders, Layout, PageDescriptor, Utsname, flags_of_codec,
};
use bigiron_format::{PhysAddr, VirtAddr, bytes::Endian, flattened};
use bigiron_synth::{Synth, presets};

const PAGE: usize = 4096;

fn main() {
    let root = std::env::args_os().nth(1).expect("usage: fuzz_seeds DIR");
    let root = Path::new(&root);
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let directory = root.join(target);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join(name), bytes).expect("a seed");
    };
    for name in presets() {
        let text = format!("kernel {name}\nram 0x0-0x9f 0x100-0xfff");
        let machine = Synth::from_text(&text).expect("a legal text");
        write("vmcoreinfo", name, machine.vmcoreinfo().as_bytes());
    }
    write("elf_core", "small", &small_core());
    for codec in Codec::ALL {
        let dump = small_kdump(codec);
        write("kdump", codec.name(), &dump);
        let flat = [
            &flattened::header()[..],
            &flattened::record_header(0, dump.len() as u64),
            &dump,
            &flattened::end_record(),
        ];
        write("kdump", &format!("{}.flat", codec.name()), &flat.concat());
    }
    let records = [
        &flattened::record_header(16, 4)[..],
        b"abcd",
        &flattened::record_header(0, 3),
        b"xyz",
        &flattened::end_record(),
    ]
    .concat();
    write("flattened_index", "two", &records);
    write("flattened_stream", "two", &[&[1], &records[..]].concat());
    write("device", "small", &small_device());
    for (index, codec) in Codec::ALL.into_iter().enumerate() {
        let mut out = vec![0; 2 * PAGE];
        let mut compressor = Compression::new(codec).compressor().expect("a context");
        let page = b"the same again, and the same again".repeat(16);
        let len = compressor.compress(&page, &mut out).expect("room");
        let input = [&[index as u8, 4][..], &out[..len]].concat();
        write("codec_decompress", codec.name(), &input);
    }
    write("mem_map", "as_it_is", &[0, 31]);
    write(
        "mem_map",
        "one_edit",
        &[1, 31, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
    );
    for target in ["tasks", "orc", "waits"] {
        write(target, "as_it_is", &[]);
        // Place 9 leads to address 3.
        let edit = [9, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        write(target, "one_edit", &edit);
    }
    for (target, texts) in TEXTS {
        for (number, text) in texts.iter().enumerate() {
            write(target, &number.to_string(), text.as_bytes());
        }
    }
    // No edit, then an empty chain; one edit of the types.
    write("bpf_types", "empty", &[&[0], &[0; 16][..]].concat());
    write("bpf_types", "edit", &[1, 24, 0, 1, 0, 0, 0, 0]);
    write("btf", "small", &[&[0], &small_btf()[..]].concat());
    write("btf", "split", &[&[2], &small_btf()[..]].concat());
    write("kallsyms", "small", &[&[0], &small_kallsyms()[..]].concat());
    for (name, commands) in ERASE_COMMANDS {
        let len = (commands.len() as u16).to_le_bytes();
        // Lists and pointers into the memory itself, at 0x1000.
        let memory = (0..256_u64).flat_map(|n| (0x1000 + n * 24 % 2048).to_le_bytes());
        let input: Vec<u8> = len
            .into_iter()
            .chain(commands.bytes())
            .chain(memory)
            .collect();
        write("erase_config", name, &input);
    }
    for machine in 0..2_u8 {
        // No edit, then an entry that is present, large and its own table.
        write("page_tables", &machine.to_string(), &[machine, 0]);
        let edit = [machine, 1, 0, 0, 0xe7, 0x10, 0, 0, 0, 0, 0, 0];
        write("page_tables", &format!("{machine}_edit"), &edit);
    }
    for form in 0..5_u8 {
        write(
            "printk",
            &form.to_string(),
            &[form << 2, 0, 0, 79, 83, 82, 69, 3],
        );
    }
    write("vmdump", "as_it_is", &[1]);
    for number in 0..6_u8 {
        let edit = [1, number, 0, 24, 0, number, 0, 0, 0];
        write("vmdump", &format!("record_{number}"), &edit);
    }
    for form in 0..16_u8 {
        let edit = [form, 0, form << 4, 1, 0, 0, 24, 0, form, 0, 0, 0];
        write("stripes", &form.to_string(), &edit);
    }
    for kind in 0..5_u8 {
        // Two bad sectors of each dump, then reads that fail.
        write(
            "bad_sectors",
            &kind.to_string(),
            &[kind, 2, 16, 0, 1, 64, 0, 2, 0],
        );
        write("bad_sectors", &format!("{kind}_reads"), &[kind, 0, 9]);
    }
    write("sadump", "as_it_is", &[0]);
    for shape in 0..3_u8 {
        // One edit of each disk: the dump header, the partition header, the bitmaps.
        for (name, at) in [("dump", 1024_u16), ("partition", 38), ("bitmaps", 3100)] {
            let [low, high] = at.to_le_bytes();
            let edit = [1, low, high, 255, 1];
            let input = [&[shape][..], &edit, &edit, &edit].concat();
            write("sadump", &format!("{shape}_{name}"), &input);
        }
        // The second disk is missing.
        write("sadump", &format!("{shape}_missing"), &[shape, 0, 9, 0]);
    }
    for form in 0..8_u8 {
        write("virtual_machines", &form.to_string(), &[form, 0]);
        let edit = [form, 1, 24, 0, 255, 1];
        write("virtual_machines", &format!("{form}_edit"), &edit);
    }
    for (name, image) in small_images() {
        write("image", name, &image);
    }
    for form in [0, 1, 2, 3, 0x80] {
        let contents = (0..2048_u32).flat_map(|n| (n / 7).to_le_bytes());
        let input: Vec<u8> = [form, form, 31, form].into_iter().chain(contents).collect();
        write("round_trip", &form.to_string(), &input);
    }
}

/// Images of a machine without RAM worth the name, and memory maps. The target adds the first
/// bytes of each form, so they are cut off.
fn small_images() -> Vec<(&'static str, Vec<u8>)> {
    let range = [
        &0x1000_u64.to_le_bytes()[..],
        &0x1fff_u64.to_le_bytes()[..],
        &[0; 8],
    ]
    .concat();
    let lime = [&range[..], &[7; PAGE]].concat();
    // A chunk that is not compressed.
    let avml = [
        &range[..],
        b"\xff\x06\0\0sNaPpY",
        &[1, 4, 16, 0],
        &[7; PAGE + 4],
    ]
    .concat();
    let block = b"\x06pc.ram\0\0\0\0\0\0\x20\0";
    let stream = [
        &b"\x01\0\0\0\x02\x03ram\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\x20\x04"[..],
        block,
        b"\0\0\0\0\0\0\0\x10\x03\0\0\0\x02\0\0\0\0\0\0\0\x08\x06pc.ram",
        &[7; PAGE],
        b"\0\0\0\0\0\0\x10\x22\0\0\0\0\0\0\0\0\x10\0",
    ];
    let mut state = [&[8, 0, 0, 0, 1, 0, 0, 0][..], b"memory"].concat();
    state.resize(8 + 64, 0);
    state.extend(92_u64.to_le_bytes());
    state.extend([0; 8]);
    for (name, value) in [("regionsCount", 1_u32), ("regionPPN", 2), ("regionSize", 1)] {
        let index = u16::from(value != 1 || name == "regionSize");
        let tag = (name.len() as u16) << 8 | index << 6 | 4;
        state.extend(tag.to_le_bytes());
        state.extend(name.bytes());
        state.extend(vec![0; 4 * usize::from(index)]);
        state.extend(value.to_le_bytes());
    }
    state.extend([0; 2]);
    vec![
        ("lime", lime),
        ("avml", avml),
        ("stream", stream.concat()),
        ("vmware", state),
        ("iomem", b"00001000-00001fff : System RAM\n".to_vec()),
        ("ranges", b"0x0-0xfff\n# a hole\n10000-10fff\n".to_vec()),
    ]
}

/// Texts about CPUs, and logs, as the kernel and people write them.
const TEXTS: [(&str, &[&str]); 4] = [
    (
        "crash_log",
        &[
            "[   12.345678][   T87] BUG: KASAN: use-after-free in f+0x1/0x2\n[   12.345678][   T87] Write of size 8 at addr ffff88\n[   12.345678][   T87] Call Trace:\n[   12.345678][   T87]  f+0x1/0x2 [m]\n",
            "<4>[   12.3] WARNING: CPU: 1 PID: 2 at lib/refcount.c:28 refcount_warn_saturate+0x1/0x2\n<4>[   12.3] RIP: 0010:g.isra.0+0x1/0x2\n<4>[   12.3] Kernel panic - not syncing: panic_on_warn set\n",
            "Nov 24 16:33:32 host kernel: INFO: task sh:12 blocked for more than 120 seconds.\r\nNov 24 16:33:32 host kernel: Call trace:\r\nNov 24 16:33:32 host kernel:  rtnl_lock+0x1/0x2\r\n",
            "Unhandled fault: x\nPC is at f+0x1/0x2\nBacktrace: \n[<c0101234>] (f) from [<c0105678>] (g+0x12/0x34)\n",
        ],
    ),
    (
        "cpu_list",
        &["0-3,8,10-11\n", "ff", "00000001,00000000,80000001\n"],
    ),
    (
        "schedstat",
        &[
            "version 15\ntimestamp 4295\ncpu0 0 0 1\ndomain0 3 1 2\ndomain1 0000000f 4\ncpu1 0\ndomain0 3\n",
            "version 17\ncpu0 0\ndomain0 SMT 3 9\ndomain1 NUMA ff 1\ncpu4 0\n",
        ],
    ),
    (
        "topology",
        &[
            "sockets=2 cores=4 threads=2 numa=2 caches=2 near=11 far=21",
            "sockets=3 cores=2 clusters=1 numbering=cores distances=10,20,30;20,10,20;30,20,10",
        ],
    ),
];

/// Both blocks of a dump device of 256 KiB, adjacent.
fn small_device() -> Vec<u8> {
    let header = DeviceHeader {
        id: DumpId(*b"0123456789abcdef"),
        generation: 2,
        valid: true,
        complete: true,
        contents: ContentsKind::Kdump,
        device_size: 256 << 10,
        offset: CONTENTS_OFFSET,
        length: 4096,
        began: 1,
        ended: 2,
        utsname: Utsname::default(),
        report: None,
        next: 0,
    };
    [
        header.encode(BlockPosition::Start),
        header.encode(BlockPosition::End),
    ]
    .concat()
}

/// An ELF core of two segments and VMCOREINFO.
fn small_core() -> Vec<u8> {
    let segment = |physical: u64, pages: u64| LoadSegment {
        file_offset: 0,
        file_size: PAGE as u64 * pages,
        physical: PhysAddr(physical),
        virt: VirtAddr(0xffff_8880_0000_0000 + physical),
        memory_size: PAGE as u64 * (pages + 1),
    };
    let text = b"OSRELEASE=6.12.0\nPAGESIZE=4096\n";
    let mut layout = CoreLayout {
        machine: MACHINE_X86_64,
        endian: Endian::Little,
        notes: note::encode(note::VMCOREINFO, 0, text, Endian::Little),
        segments: vec![segment(0x1000, 1), segment(0x10_0000, 2)],
    };
    let size = layout.place(8).expect("a small core");
    let mut bytes = layout.encode(false);
    bytes.resize(size as usize, 0x11);
    bytes
}

/// A kdump-compressed dump of three pages.
fn small_kdump(codec: Codec) -> Vec<u8> {
    let endian = Endian::Little;
    let text = b"OSRELEASE=6.12.0\nPAGESIZE=4096\n";
    let notes = note::encode(note::VMCOREINFO, 0, text, endian);
    let layout = Layout::new(PAGE as u64, notes.len() as u64, 16);
    let mut utsname = Utsname::default();
    utsname.names[4] = "x86_64".into();
    let headers = KdumpHeaders {
        endian,
        version: bigiron_format::kdump::header::VERSION,
        utsname,
        timestamp: (0, 0),
        codec_flags: flags_of_codec(codec),
        incomplete: false,
        block_size: PAGE as u32,
        cpu_count: 1,
        phys_base: 0,
        dump_level: 31,
        lacks_struct_pages: false,
        split: None,
        end_frame: 16,
        vmcoreinfo: None,
        erase_info: Vec::new(),
        offset_note: layout.notes(),
        notes,
        layout,
    };
    let mut out = headers.encode();
    out.resize(layout.descriptors() as usize, 0);
    out[layout.ram_bitmap() as usize] = 0xff;
    out[layout.dumped_bitmap() as usize] = 0b0010_0110;
    let mut data = layout.descriptor(3);
    let mut pages = Vec::new();
    for fill in [0_u8, 1, 2] {
        let page = [fill; PAGE];
        let mut room = vec![0; PAGE - 1];
        let mut compressor = Compression::new(codec).compressor().expect("a context");
        let (stored, flags) = match compressor.compress(&page, &mut room) {
            Some(len) => (&room[..len], flags_of_codec(codec)),
            None => (&page[..], 0),
        };
        let descriptor = PageDescriptor {
            offset: data,
            size: stored.len() as u32,
            flags,
            page_flags: 0,
        };
        out.extend(descriptor.encode(endian));
        data += stored.len() as u64;
        pages.extend_from_slice(stored);
    }
    assert_eq!(
        out.len() as u64,
        layout.descriptors() + 3 * DESCRIPTOR_SIZE as u64
    );
    out.extend(pages);
    out
}

/// Commands on the variables of the target.
const ERASE_COMMANDS: [(&str, &str); 4] = [
    (
        "plain",
        "erase first.name\nerase pointer.text\nerase any:char[100] size count\n",
    ),
    (
        "list",
        "for n in head.next within node:list\nerase n.name\nerase n.key nullify\nendfor\n",
    ),
    (
        "next",
        "for n in first via next\nerase n.text size n.len\nendfor\n[x]\nerase y\n",
    ),
    (
        "array",
        "for n in nodes # all\nerase n size 1K\nendfor\nfor t in texts\nerase t\nendfor\n",
    ),
];

/// BTF of an int, a pointer to it, an array, and a struct of them with a bit field.
fn small_btf() -> Vec<u8> {
    let names = b"\0int\0node\0next\0bits\0";
    let (int, node, next, bits) = (1, 5, 10, 15);
    let types: [&[u32]; 4] = [
        &[int, 1 << 24, 4, 32 | 1 << 24],
        &[0, 2 << 24, 4],
        &[0, 3 << 24, 0, 1, 1, 8],
        &[
            node,
            1 << 31 | 4 << 24 | 3,
            48,
            next,
            2,
            0,
            0,
            3,
            64,
            bits,
            1,
            3 << 24 | 320,
        ],
    ];
    let types: Vec<u8> = types
        .concat()
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let sizes = [24, 0, types.len(), types.len(), names.len()];
    let header = sizes.into_iter().flat_map(|n| (n as u32).to_le_bytes());
    let magic = [0x9f, 0xeb, 1, 0];
    magic
        .into_iter()
        .chain(header)
        .chain(types)
        .chain(names.iter().copied())
        .collect()
}

/// kallsyms of three symbols, at the place where the target looks for them: each byte is the
/// token for itself.
fn small_kallsyms() -> Vec<u8> {
    let mut bytes = vec![0; 0x710];
    bytes[..4].copy_from_slice(&3_u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&0xffff_ffff_8100_0000_u64.to_le_bytes());
    for byte in 0..256_usize {
        let at = 0x10 + 2 * byte;
        bytes[at..at + 2].copy_from_slice(&(2 * byte as u16).to_le_bytes());
        bytes[0x310 + 2 * byte] = byte as u8;
    }
    for (index, offset) in [-1_i32, -0x1001, 0x100].into_iter().enumerate() {
        let at = 0x210 + 4 * index;
        bytes[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }
    for name in ["T_stext", "Tschedule", "Aper_cpu"] {
        bytes.push(name.len() as u8);
        bytes.extend(name.bytes());
    }
    bytes
}
