//! Inode numbers of directories and files, computed rather than stored.

/// A directory or file of the tree, encoded in its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inode {
    /// The root directory.
    Root,
    /// The directory of a CPU.
    Cpu(u32),
    /// The directory of a domain: CPU, and position in its chain.
    Domain(u32, u32),
    /// A file of a domain: CPU, position of the domain, and index of the file among all files.
    File(u32, u32, u8),
}

/// Inode number of the root directory in FUSE.
const ROOT: u64 = 1;
/// Width of the file field and of the domain field, in bits; a field of 0 means none.
const BITS: u32 = 8;
/// Mask of [`BITS`] bits.
const MASK: u64 = (1 << BITS) - 1;

impl Inode {
    /// Returns the inode number: the CPU in the high bits, then domain and file, each counted
    /// from 1.
    pub fn number(self) -> u64 {
        let number = |cpu: u32, domain: u64, file: u64| {
            (u64::from(cpu) + 1) << (2 * BITS) | domain << BITS | file
        };
        match self {
            Self::Root => ROOT,
            Self::Cpu(cpu) => number(cpu, 0, 0),
            Self::Domain(cpu, domain) => number(cpu, u64::from(domain) + 1, 0),
            Self::File(cpu, domain, file) => {
                number(cpu, u64::from(domain) + 1, u64::from(file) + 1)
            }
        }
    }

    /// Decodes an inode number; `None` if it is invalid.
    pub fn of(number: u64) -> Option<Self> {
        if number == ROOT {
            return Some(Self::Root);
        }
        let cpu = u32::try_from((number >> (2 * BITS)).checked_sub(1)?).ok()?;
        let part = |number: u64| (number & MASK).checked_sub(1);
        match (part(number >> BITS), part(number)) {
            (None, None) => Some(Self::Cpu(cpu)),
            (Some(domain), None) => Some(Self::Domain(cpu, domain as u32)),
            (Some(domain), Some(file)) => Some(Self::File(cpu, domain as u32, file as u8)),
            (None, Some(_)) => None,
        }
    }

    /// Returns the parent directory; the root is its own parent.
    pub fn parent(self) -> Self {
        match self {
            Self::Root | Self::Cpu(_) => Self::Root,
            Self::Domain(cpu, _) => Self::Cpu(cpu),
            Self::File(cpu, domain, _) => Self::Domain(cpu, domain),
        }
    }

    /// Returns true for a regular file.
    pub fn is_file(self) -> bool {
        matches!(self, Self::File(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_numbers_round_trip() {
        for inode in [
            Inode::Root,
            Inode::Cpu(0),
            Inode::Cpu(u32::MAX),
            Inode::Domain(0, 0),
            Inode::Domain(8191, 31),
            Inode::File(8191, 31, 10),
            Inode::File(0, 0, 0),
        ] {
            assert_eq!(Inode::of(inode.number()), Some(inode));
        }
        // No CPU; a file without a domain; numbers reserved by FUSE.
        for number in [0, 2, 0xffff, 0x1_0001, u64::MAX] {
            assert_eq!(Inode::of(number), None, "{number:#x}");
        }
    }

    #[test]
    fn inode_numbers_ascend_in_listing_order() {
        let inodes = [
            Inode::Root,
            Inode::Cpu(0),
            Inode::Domain(0, 0),
            Inode::File(0, 0, 0),
            Inode::File(0, 0, 1),
            Inode::Domain(0, 1),
            Inode::Cpu(1),
        ];
        assert!(inodes.is_sorted_by_key(|inode| inode.number()));
        assert_eq!(Inode::File(3, 1, 2).parent().parent(), Inode::Cpu(3));
    }
}
