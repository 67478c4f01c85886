//! Files of a domain, and their formats.

use std::fs;

use bigiron_format::bytes::Endian;
use bigiron_kernel::types::btf::Btf;

use crate::domains::SchedDomain;
use crate::flags;

/// All files: those of the kernel, and `span`, which no kernel exports.
const FILES: [&str; 11] = [
    "name",
    "flags",
    "groups_flags",
    "level",
    "min_interval",
    "max_interval",
    "busy_factor",
    "imbalance_pct",
    "cache_nice_tries",
    "max_newidle_lb_cost",
    "span",
];

/// Layout in which a kernel exports domains.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Since 5.13: debugfs (register_sd, kernel/sched/debug.c), with flags by name.
    Debugfs,
    /// Before 5.13: /proc/sys/kernel/sched_domain (sd_alloc_ctl_domain_table), without
    /// `groups_flags` and `level`, and until 5.9 with flags as a decimal number.
    Sysctl {
        /// Bits and names of flags. If a domain has a flag that is not listed, its flags are
        /// written by name, as from 5.10 to 5.12 (5b9f8ff7b320).
        bits: Vec<(u64, String)>,
    },
}

/// BTF types of the running kernel.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
const NATIVE: Endian = if cfg!(target_endian = "little") {
    Endian::Little
} else {
    Endian::Big
};

impl Layout {
    /// Returns the old layout, with the flag bits of the running kernel if its types define
    /// them.
    pub fn sysctl_of_running() -> Self {
        let types = fs::read(TYPES).ok();
        let types = types.and_then(|bytes| Btf::parse(bytes, NATIVE).ok());
        let bits = types.and_then(|types| flags::of_types(&types).ok());
        Self::Sysctl {
            bits: bits.unwrap_or_default(),
        }
    }

    /// Returns the files that the layout may contain, each with its index among all files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, u8)> + use<> {
        let old = matches!(self, Self::Sysctl { .. });
        let files = FILES.into_iter().zip(0..);
        files.filter(move |(name, _)| !(old && matches!(*name, "groups_flags" | "level")))
    }

    /// Returns the contents of a file of `domain`; `None` if the file does not exist or its
    /// value is unknown.
    pub(super) fn text(&self, domain: &SchedDomain, file: u8) -> Option<String> {
        let (name, _) = self.files().find(|(_, found)| *found == file)?;
        let bits = match self {
            Self::Sysctl { bits } if name == "flags" => number(domain.flags.as_deref()?, bits),
            _ => None,
        };
        if let Some(bits) = bits {
            return Some(format!("{bits}\n"));
        }
        let texts = domain.files().into_iter();
        let mut texts = texts.filter(|(found, _)| *found == name);
        texts.next().map(|(_, text)| text)
    }
}

/// Returns the index of a file among all files.
pub(super) fn file(name: &str) -> Option<u8> {
    let index = FILES.iter().position(|file| *file == name)?;
    u8::try_from(index).ok()
}

/// Returns the name of the file at an index.
pub(super) fn name(file: u8) -> Option<&'static str> {
    FILES.get(usize::from(file)).copied()
}

/// Returns flags as a number; `None` if one of them is unknown.
fn number(flags: &[String], bits: &[(u64, String)]) -> Option<u64> {
    let bit = |flag: &String| {
        let known = bits.iter().find(|(_, name)| name == flag);
        known.map(|(bit, _)| *bit)
    };
    flags.iter().map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_layout_has_numeric_flags_if_all_are_known() {
        let bits = vec![(1, "SD_BALANCE_NEWIDLE".into()), (8, "SD_NUMA".to_owned())];
        let domain = SchedDomain {
            name: Some("NUMA".into()),
            level: Some(3),
            flags: Some(bits.iter().map(|(_, name)| name.clone()).collect()),
            groups_flags: Some(Vec::new()),
            ..SchedDomain::default()
        };
        let text = |layout: &Layout, name| layout.text(&domain, file(name).unwrap());
        let old = Layout::Sysctl { bits };
        assert_eq!(text(&old, "flags").as_deref(), Some("9\n"));
        assert_eq!(text(&old, "name").as_deref(), Some("NUMA\n"));
        assert_eq!(
            (text(&old, "level"), text(&old, "groups_flags")),
            (None, None)
        );
        let less = Layout::Sysctl {
            bits: vec![(1, "SD_BALANCE_NEWIDLE".into())],
        };
        let names = Some("SD_BALANCE_NEWIDLE SD_NUMA \n");
        assert_eq!(text(&less, "flags").as_deref(), names);
        assert_eq!(text(&Layout::Debugfs, "flags").as_deref(), names);
        assert_eq!(text(&Layout::Debugfs, "level").as_deref(), Some("3\n"));
        assert_eq!(text(&Layout::Debugfs, "span"), None);
    }
}
