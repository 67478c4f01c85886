//! The description of an option.

use std::fmt::Write as _;

/// Identifier of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    Zlib,
    Lzo,
    Snappy,
    Zstd,
    DumpLevel,
    SizeLimit,
    Elf,
    Vmlinux,
    Vmcoreinfo,
    GenerateVmcoreinfo,
    Config,
    Eppic,
    Flattened,
    Rearrange,
    Split,
    SplitblockSize,
    Reassemble,
    Threads,
    BlockOrder,
    CyclicBuffer,
    WorkDir,
    NonMmap,
    XenSyms,
    XenVmcoreinfo,
    XenPhysStart,
    ExcludeXenDomains,
    ExcludeVmemmap,
    Extension,
    Diskset,
    MessageLevel,
    Vtop,
    DumpDmesg,
    PartialDmesg,
    MemUsage,
    CheckParams,
    DryRun,
    ShowStats,
    Debug,
    Force,
    Help,
    Version,
}

/// Support for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Works as in makedumpfile.
    Done,
    /// Ignored with a notice: it controls something that this program does differently.
    Ignored,
    /// Rejected by name: the program fails.
    Refused,
}

/// An option.
#[derive(Debug)]
pub struct Spec {
    pub id: Id,
    pub short: Option<char>,
    pub long: Option<&'static str>,
    /// Name of its value, if it takes one.
    pub value: Option<&'static str>,
    pub class: Class,
    /// The effect of the option, or the reason why it has none.
    pub text: &'static str,
}

pub const fn done(
    id: Id,
    short: Option<char>,
    long: Option<&'static str>,
    value: Option<&'static str>,
    text: &'static str,
) -> Spec {
    Spec {
        id,
        short,
        long,
        value,
        class: Class::Done,
        text,
    }
}

pub const fn ignored(
    id: Id,
    short: Option<char>,
    long: Option<&'static str>,
    value: Option<&'static str>,
    text: &'static str,
) -> Spec {
    Spec {
        class: Class::Ignored,
        ..done(id, short, long, value, text)
    }
}

pub const fn refused(
    id: Id,
    short: Option<char>,
    long: Option<&'static str>,
    value: Option<&'static str>,
    text: &'static str,
) -> Spec {
    Spec {
        class: Class::Refused,
        ..done(id, short, long, value, text)
    }
}

impl Spec {
    /// Returns the usage: `-d LEVEL`, `--split`.
    pub fn usage(&self) -> String {
        let mut names = Vec::new();
        names.extend(self.short.map(|short| format!("-{short}")));
        names.extend(self.long.map(|long| format!("--{long}")));
        let mut text = names.join(", ");
        if let Some(value) = self.value {
            let _ = write!(text, " {value}");
        }
        text
    }
}
