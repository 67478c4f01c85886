//! The table of makedumpfile's options, from which the parser, `-h`, and the table in
//! docs/makedumpfile.md are made.

#[cfg(test)]
use std::fmt::Write as _;

use super::spec::{Id, Spec, done, ignored, refused};

const NO_XEN: &str = "dumps of Xen hosts are not read";

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
        "leave pages out: the sum of 1 zero pages, 2 cache without private data, 4 all cache, \
         8 user memory, 16 free pages; with several, N,M, the next one is tried when the output \
         is full (default 0)",
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
        "must be the kernel of VMCORE, by its build id or its release; read for --config and -g, \
         else VMCORE's own VMCOREINFO has all that is needed",
    ),
    done(
        Id::Vmcoreinfo,
        Some('i'),
        None,
        Some("VMCOREINFO"),
        "take VMCOREINFO from this file; it must be of the release of VMCORE, and one without \
         KASLR's offset gives way to the one in VMCORE",
    ),
    #[cfg(feature = "dwarf")]
    done(
        Id::GenerateVmcoreinfo,
        Some('g'),
        None,
        Some("VMCOREINFO"),
        "write VMCOREINFO, made from the debug information of VMLINUX (-x)",
    ),
    #[cfg(not(feature = "dwarf"))]
    refused(
        Id::GenerateVmcoreinfo,
        Some('g'),
        None,
        Some("VMCOREINFO"),
        "this build reads no DWARF; kernels since 2.6.24 carry their own VMCOREINFO, which is \
         found in the dump even where no note has it",
    ),
    done(
        Id::Config,
        None,
        Some("config"),
        Some("FILE"),
        "erase what the commands in FILE name (makedumpfile.conf(5)); without -x by the symbols and \
         BTF in VMCORE (docs/erase.md)",
    ),
    refused(
        Id::Eppic,
        None,
        Some("eppic"),
        Some("MACRO"),
        "eppic macros are programs of a language that is not run here",
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
        "make DUMPFILE of the flattened format on standard input",
    ),
    done(
        Id::Split,
        None,
        Some("split"),
        None,
        "write several DUMPFILEs, at the same time and with as many pages each",
    ),
    done(
        Id::SplitblockSize,
        None,
        Some("splitblock-size"),
        Some("KB"),
        "with --split: a file begins at a multiple of so much memory, from 1024 to 131072",
    ),
    done(
        Id::Reassemble,
        None,
        Some("reassemble"),
        None,
        "make one DUMPFILE of those of --split, compressed in the same way",
    ),
    done(
        Id::Threads,
        None,
        Some("num-threads"),
        Some("N"),
        "threads that read, compress and write (default, and 0: one for each CPU)",
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
        "256 page frames are read, compressed and written together",
    ),
    ignored(
        Id::CyclicBuffer,
        None,
        Some("cyclic-buffer"),
        Some("KB"),
        "bitmaps live in the output or in a few MiB of memory; there are no cycles",
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
        "read VMCORE with read(2), never mmap(2)",
    ),
    refused(
        Id::XenSyms,
        None,
        Some("xen-syms"),
        Some("XEN-SYMS"),
        NO_XEN,
    ),
    refused(
        Id::XenVmcoreinfo,
        None,
        Some("xen-vmcoreinfo"),
        Some("VMCOREINFO"),
        NO_XEN,
    ),
    refused(
        Id::XenPhysStart,
        None,
        Some("xen_phys_start"),
        Some("ADDRESS"),
        NO_XEN,
    ),
    refused(Id::ExcludeXenDomains, Some('X'), None, None, NO_XEN),
    refused(
        Id::ExcludeVmemmap,
        Some('e'),
        None,
        None,
        "the struct pages of pages left out are always kept: without them a dump cannot be \
         filtered again or checked",
    ),
    refused(
        Id::Diskset,
        None,
        Some("diskset"),
        Some("VMCORE"),
        "dumps of sadump are not read",
    ),
    done(
        Id::MessageLevel,
        None,
        Some("message-level"),
        Some("LEVEL"),
        "what is printed, the sum of 1 progress, 2 common, 4 errors, 8 debug, 16 report \
         (default 7)",
    ),
    done(
        Id::Vtop,
        None,
        Some("vtop"),
        Some("ADDRESS"),
        "print the physical address of a kernel address, and the page table entries to it",
    ),
    done(
        Id::DumpDmesg,
        None,
        Some("dump-dmesg"),
        None,
        "write the kernel log in VMCORE to LOGFILE, nothing else",
    ),
    done(
        Id::PartialDmesg,
        None,
        Some("partial-dmesg"),
        None,
        "with --dump-dmesg: only what came after the last `dmesg --clear`",
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
        "only check the command line; best given first",
    ),
    done(
        Id::DryRun,
        None,
        Some("dry-run"),
        None,
        "do everything but write DUMPFILE",
    ),
    done(
        Id::ShowStats,
        None,
        Some("show-stats"),
        None,
        "print report messages, as --message-level 16 added to the others",
    ),
    done(Id::Debug, Some('D'), None, None, "print debug messages"),
    done(
        Id::Force,
        Some('f'),
        None,
        None,
        "replace DUMPFILE if it is there already",
    ),
    done(Id::Help, Some('h'), Some("help"), None, "print this"),
    done(Id::Version, Some('v'), None, None, "print the version"),
];

/// The table of docs/makedumpfile.md.
#[cfg(test)]
pub fn markdown() -> String {
    use super::spec::Class;

    let mut text = String::from("| option | class | |\n|---|---|---|\n");
    for option in OPTIONS {
        let class = match option.class {
            Class::Done => "done",
            Class::Ignored => "ignored, with a notice",
            Class::Refused => "refused by name",
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
