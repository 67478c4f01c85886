//! The table of makedumpfile's options, from which the parser, `-h`, and the table in
//! docs/makedumpfile.md are made.

#[cfg(test)]
use std::fmt::Write as _;

use super::spec::{Id, Spec, done, ignored, refused};

/// All options of makedumpfile 1.7.2, and -j.
pub static OPTIONS: &[Spec] = &[
    done(
        Id::Zlib,
        Some('c'),
        None,
        None,
        "compress pages with zlib (level 1, as makedumpfile)",
    ),
    done(Id::Lzo, Some('l'), None, None, "compress pages with LZO"),
    done(
        Id::Snappy,
        Some('p'),
        None,
        None,
        "compress pages with snappy",
    ),
    done(Id::Zstd, Some('z'), None, None, "compress pages with zstd"),
    done(
        Id::DumpLevel,
        Some('d'),
        None,
        Some("LEVEL"),
        "exclude pages, the sum of: 1 zero pages, 2 cache without private data, 4 all cache, \
         8 user memory, 16 free pages; with several levels N,M, the next is tried when the \
         output is full (default 0)",
    ),
    done(
        Id::SizeLimit,
        Some('L'),
        None,
        Some("SIZE"),
        "end the output, incomplete, at SIZE bytes",
    ),
    done(
        Id::Elf,
        Some('E'),
        None,
        None,
        "write an ELF core, without compression",
    ),
    done(
        Id::Vmlinux,
        Some('x'),
        None,
        Some("VMLINUX"),
        "kernel of VMCORE, checked by build ID or release; read only for --config and -g, since \
         VMCORE's own VMCOREINFO is otherwise sufficient",
    ),
    done(
        Id::Vmcoreinfo,
        Some('i'),
        None,
        Some("VMCOREINFO"),
        "use the VMCOREINFO in this file; its release must be that of VMCORE, and one without \
         the KASLR offset is overridden by the one in VMCORE",
    ),
    #[cfg(feature = "dwarf")]
    done(
        Id::GenerateVmcoreinfo,
        Some('g'),
        None,
        Some("VMCOREINFO"),
        "write VMCOREINFO generated from the debug information of VMLINUX (-x)",
    ),
    #[cfg(not(feature = "dwarf"))]
    refused(
        Id::GenerateVmcoreinfo,
        Some('g'),
        None,
        Some("VMCOREINFO"),
        "this build does not read DWARF; kernels since 2.6.24 contain their own VMCOREINFO, \
         which is found in the dump even if no note has it",
    ),
    done(
        Id::Config,
        None,
        Some("config"),
        Some("FILE"),
        "erase the data named by the commands in FILE (makedumpfile.conf(5)); without -x, the \
         symbols and BTF in VMCORE are used (docs/erase.md)",
    ),
    refused(
        Id::Eppic,
        None,
        Some("eppic"),
        Some("MACRO"),
        "the language of eppic macros is not implemented",
    ),
    done(
        Id::Flattened,
        Some('F'),
        None,
        None,
        "write the flattened format to standard output; messages go to standard error",
    ),
    done(
        Id::Rearrange,
        Some('R'),
        None,
        None,
        "write DUMPFILE from the flattened format on standard input",
    ),
    done(
        Id::Split,
        None,
        Some("split"),
        None,
        "write several DUMPFILEs in parallel, with about the same number of pages each",
    ),
    done(
        Id::SplitblockSize,
        None,
        Some("splitblock-size"),
        Some("KB"),
        "with --split: each file begins at a multiple of this much memory, from 1024 to 131072",
    ),
    done(
        Id::Reassemble,
        None,
        Some("reassemble"),
        None,
        "join the DUMPFILEs of --split into one, with the same compression",
    ),
    done(
        Id::Threads,
        None,
        Some("num-threads"),
        Some("N"),
        "number of threads that read, compress and write (default and 0: one per CPU)",
    ),
    done(
        Id::Threads,
        Some('j'),
        None,
        Some("N"),
        "the same as --num-threads; not an option of makedumpfile",
    ),
    ignored(
        Id::BlockOrder,
        Some('b'),
        None,
        Some("ORDER"),
        "page frames are read, compressed and written in batches of 256",
    ),
    ignored(
        Id::CyclicBuffer,
        None,
        Some("cyclic-buffer"),
        Some("KB"),
        "bitmaps are in the output or in a few MiB of memory; there are no cycles",
    ),
    ignored(
        Id::WorkDir,
        None,
        Some("work-dir"),
        Some("DIRECTORY"),
        "there are no temporary files",
    ),
    done(
        Id::NonMmap,
        None,
        Some("non-mmap"),
        None,
        "read VMCORE with read(2), not mmap(2)",
    ),
    #[cfg(feature = "dwarf")]
    done(
        Id::XenSyms,
        None,
        Some("xen-syms"),
        Some("XEN-SYMS"),
        "find the hypervisor's data by the debug information of XEN-SYMS instead of its VMCOREINFO \
         in VMCORE; with -g, write that VMCOREINFO",
    ),
    #[cfg(not(feature = "dwarf"))]
    refused(
        Id::XenSyms,
        None,
        Some("xen-syms"),
        Some("XEN-SYMS"),
        "this build does not read DWARF; the hypervisor's VMCOREINFO is in VMCORE, else give it \
         with --xen-vmcoreinfo",
    ),
    done(
        Id::XenVmcoreinfo,
        None,
        Some("xen-vmcoreinfo"),
        Some("VMCOREINFO"),
        "use the hypervisor's VMCOREINFO in this file instead of the one in VMCORE",
    ),
    done(
        Id::XenPhysStart,
        None,
        Some("xen_phys_start"),
        Some("ADDRESS"),
        "physical address of the hypervisor's image, which VMCORE of old versions does not have",
    ),
    done(
        Id::ExcludeXenDomains,
        Some('X'),
        None,
        None,
        "leave out the memory of all domains but dom0, and the hypervisor's free memory; VMCORE \
         is of a Xen host",
    ),
    done(
        Id::ExcludeVmemmap,
        Some('e'),
        None,
        None,
        "leave out the pages of the memory map that describe excluded pages only \
         (docs/struct-pages.md)",
    ),
    refused(
        Id::Extension,
        None,
        Some("extension"),
        Some("FILE.so"),
        "no code is loaded into the dump; rules name the same pages (bigiron dump --rules): \
         buffers in a list by each and pages, a process by process, a slab cache by slab-cache \
         (docs/rules.md)",
    ),
    #[cfg(feature = "images")]
    done(
        Id::Diskset,
        None,
        Some("diskset"),
        Some("VMCORE"),
        "a disk of a sadump, in place of VMCORE; given once for each disk of the set, in any order",
    ),
    #[cfg(not(feature = "images"))]
    refused(
        Id::Diskset,
        None,
        Some("diskset"),
        Some("VMCORE"),
        "this build reads no sadump",
    ),
    done(
        Id::MessageLevel,
        None,
        Some("message-level"),
        Some("LEVEL"),
        "messages to print, the sum of: 1 progress, 2 common, 4 errors, 8 debug, 16 report \
         (default 7)",
    ),
    done(
        Id::Vtop,
        None,
        Some("vtop"),
        Some("ADDRESS"),
        "print the physical address of a kernel address, and its page table entries",
    ),
    done(
        Id::DumpDmesg,
        None,
        Some("dump-dmesg"),
        None,
        "write only the kernel log in VMCORE, to LOGFILE",
    ),
    done(
        Id::PartialDmesg,
        None,
        Some("partial-dmesg"),
        None,
        "with --dump-dmesg: only records logged after the last `dmesg --clear`",
    ),
    done(
        Id::MemUsage,
        None,
        Some("mem-usage"),
        None,
        "count the pages of each kind in /proc/kcore, or in a VMCORE; the memory of the capture \
         kernel counts as kernel data",
    ),
    done(
        Id::CheckParams,
        None,
        Some("check-params"),
        None,
        "only check the command line; should be the first option",
    ),
    done(
        Id::DryRun,
        None,
        Some("dry-run"),
        None,
        "do everything except write DUMPFILE",
    ),
    done(
        Id::ShowStats,
        None,
        Some("show-stats"),
        None,
        "also print report messages, as if 16 were added to --message-level",
    ),
    done(Id::Debug, Some('D'), None, None, "print debug messages"),
    done(
        Id::Force,
        Some('f'),
        None,
        None,
        "replace DUMPFILE if it exists",
    ),
    done(Id::Help, Some('h'), Some("help"), None, "print this help"),
    done(Id::Version, Some('v'), None, None, "print the version"),
];

/// The table of docs/makedumpfile.md.
#[cfg(test)]
pub fn markdown() -> String {
    use super::spec::Class;

    let mut text = String::from("| option | class | |\n|---|---|---|\n");
    for option in OPTIONS {
        let class = match option.class {
            Class::Done => "supported",
            Class::Ignored => "ignored, with a notice",
            Class::Refused => "rejected by name",
        };
        let _ = writeln!(text, "| `{}` | {class} | {} |", option.usage(), option.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_in_the_documentation_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/makedumpfile.md");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            text.contains(&markdown()),
            "put this into docs/makedumpfile.md:\n{}",
            markdown()
        );
    }

    #[test]
    fn option_names_are_distinct() {
        let shorts: Vec<_> = OPTIONS.iter().filter_map(|option| option.short).collect();
        let longs: Vec<_> = OPTIONS.iter().filter_map(|option| option.long).collect();
        for (index, short) in shorts.iter().enumerate() {
            assert!(!shorts[..index].contains(short), "-{short}");
        }
        for (index, long) in longs.iter().enumerate() {
            assert!(!longs[..index].contains(long), "--{long}");
        }
        assert!(
            OPTIONS
                .iter()
                .all(|option| option.short.is_some() || option.long.is_some())
        );
    }
}
