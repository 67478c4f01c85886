//! Names of the flags of scheduler domains, from the type information of their kernel.

use bigiron_kernel::KernelError;
use bigiron_kernel::types::TypeTable;

/// Flags of include/linux/sched/sd_flags.h, through Linux 6.12. The kernel's types define the
/// bit of each.
const FLAGS: [&str; 16] = [
    "SD_BALANCE_NEWIDLE",
    "SD_BALANCE_EXEC",
    "SD_BALANCE_FORK",
    "SD_BALANCE_WAKE",
    "SD_WAKE_AFFINE",
    "SD_ASYM_CPUCAPACITY",
    "SD_ASYM_CPUCAPACITY_FULL",
    "SD_SHARE_CPUCAPACITY",
    "SD_CLUSTER",
    "SD_SHARE_PKG_RESOURCES",
    "SD_SHARE_LLC",
    "SD_SERIALIZE",
    "SD_ASYM_PACKING",
    "SD_PREFER_SIBLING",
    "SD_OVERLAP",
    "SD_NUMA",
];

/// Number of bits of the flags, which are an int.
const MAX_FLAGS: usize = 32;

/// Returns the bits of the flags and their names, as defined by the kernel's types.
///
/// # Errors
/// The type table is damaged.
pub fn of_types(types: &dyn TypeTable) -> Result<Vec<(u64, String)>, KernelError> {
    let mut flags = Vec::new();
    for name in FLAGS {
        if let Some(bit) = types.enumerator(name)? {
            flags.push((bit.cast_unsigned(), name.to_owned()));
        }
    }
    Ok(flags)
}

/// Returns the names of the bits that are set; a bit without a name is shown as a number.
pub fn names(known: &[(u64, String)], flags: u64) -> Vec<String> {
    let bits = (0..MAX_FLAGS).map(|bit| 1_u64 << bit);
    let set = bits.filter(|bit| flags & bit != 0);
    let name = |bit: u64| {
        let known = known.iter().find(|(known, _)| *known == bit);
        known.map_or_else(|| format!("{bit:#x}"), |(_, name)| name.clone())
    };
    set.map(name).collect()
}
