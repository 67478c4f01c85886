//! Numbers of directories and files, which are computed and never kept.

/// A directory or file of the tree, encoded in its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inode {
    /// The root directory.
    Root,
    /// The directory of a CPU.
    Cpu(u32),
    /// The directory of a domain: the CPU, and its place in the chain.
    Domain(u32, u32),
    /// A file of a domain: the CPU, the domain's place, and the file's in the list of all.
    File(u32, u32, u8),
}

/// The root's number, as FUSE has it.
const ROOT: u64 = 1;
/// The bits of a file and of a domain; 0 stands for none.
const BITS: u32 = 8;
/// Mask of [`BITS`] bits.
const MASK: u64 = (1 << BITS) - 1;

impl Inode {
    /// The number: the CPU above, then the domain, then the file, each counted from 1.
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
    fn a_number_says_its_place() {
        for spot in [
            Inode::Root,
            Inode::Cpu(0),
            Inode::Cpu(u32::MAX),
            Inode::Domain(0, 0),
            Inode::Domain(8191, 31),
            Inode::File(8191, 31, 10),
            Inode::File(0, 0, 0),
        ] {
            assert_eq!(Inode::of(spot.number()), Some(spot));
        }
        // No CPU; a file of no domain; the numbers that FUSE keeps.
        for number in [0, 2, 0xffff, 0x1_0001, u64::MAX] {
            assert_eq!(Inode::of(number), None, "{number:#x}");
        }
    }

    #[test]
    fn numbers_rise_as_a_listing_goes() {
        let spots = [
            Inode::Root,
            Inode::Cpu(0),
            Inode::Domain(0, 0),
            Inode::File(0, 0, 0),
            Inode::File(0, 0, 1),
            Inode::Domain(0, 1),
            Inode::Cpu(1),
        ];
        assert!(spots.is_sorted_by_key(|spot| spot.number()));
        assert_eq!(Inode::File(3, 1, 2).parent().parent(), Inode::Cpu(3));
    }
}
