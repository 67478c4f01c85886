//! Where the parts of the next kernel go in physical memory.

use std::ops::Range;

use anyhow::Context;

use super::bzimage::BzImage;
use super::kexec::Segment;

const PAGE: u64 = 4096;
/// Size of struct boot_params (arch/x86/include/uapi/asm/bootparam.h).
pub const PARAMETERS_SIZE: usize = 4096;
/// Below are the firmware's and the boot code's own places.
const LOWEST: u64 = 16 << 20;
/// Boot parameters, first code, and command line, a page each.
const SMALL_PARTS: u64 = 3 * PAGE;
/// Offset of the 64-bit entry in a kernel (Documentation/arch/x86/boot.rst).
const ENTRY_64: u64 = 0x200;

/// Addresses of all parts.
pub struct Layout {
    /// The kernel.
    pub kernel: u64,
    /// Memory that the kernel needs there.
    kernel_size: u64,
    /// The initrd.
    pub initrd: u64,
    /// Its length in bytes.
    pub initrd_size: u64,
}

impl Layout {
    /// Chooses the lowest range of `ram` that has room for all parts and in which the kernel finds
    /// them.
    ///
    /// # Errors
    /// There is none.
    pub fn choose(image: &BzImage, initrd_size: u64, ram: &[Range<u64>]) -> anyhow::Result<Self> {
        let kernel_size = image.init_size.next_multiple_of(PAGE);
        let after = kernel_size + SMALL_PARTS + initrd_size.next_multiple_of(PAGE);
        let fits = |range: &Range<u64>| {
            let kernel = range
                .start
                .max(LOWEST)
                .checked_next_multiple_of(image.alignment)?;
            let end = kernel.checked_add(after)?;
            (end <= range.end && end - 1 <= image.initrd_max).then_some(kernel)
        };
        let kernel = ram.iter().find_map(fits);
        let kernel =
            kernel.context("no memory in one piece has room for the kernel and its initrd")?;
        Ok(Self {
            kernel,
            kernel_size,
            initrd: kernel + kernel_size + SMALL_PARTS,
            initrd_size,
        })
    }

    fn parameters(&self) -> u64 {
        self.kernel + self.kernel_size
    }

    /// Address of the first code.
    pub fn entry(&self) -> u64 {
        self.parameters() + PAGE
    }

    /// Address of the command line.
    pub fn command_line(&self) -> u64 {
        self.parameters() + 2 * PAGE
    }

    /// Returns all parts with their addresses.
    pub fn segments<'a>(
        &self,
        image: &BzImage<'a>,
        initrd: &'a [u8],
        parameters: Vec<u8>,
        line: &str,
    ) -> Vec<Segment<'a>> {
        let mut small = parameters;
        small.extend(first_code(self.parameters(), self.kernel + ENTRY_64));
        small.resize(PARAMETERS_SIZE + PAGE as usize, 0);
        small.extend(line.as_bytes());
        small.push(0);
        vec![
            Segment::new(self.kernel, image.code.into(), self.kernel_size),
            Segment::new(self.parameters(), small.into(), SMALL_PARTS),
            Segment::new(
                self.initrd,
                initrd.into(),
                self.initrd_size.next_multiple_of(PAGE),
            ),
        ]
    }
}

/// Code that jumps to `kernel` with the address of its parameters in RSI, as the 64-bit boot
/// protocol requires. kexec has interrupts off and maps memory one to one
/// (arch/x86/kernel/relocate_kernel_64.S).
fn first_code(parameters: u64, kernel: u64) -> Vec<u8> {
    [
        &[0x48, 0xbe][..], // mov rsi, parameters
        &parameters.to_le_bytes(),
        &[0x48, 0xb8], // mov rax, kernel
        &kernel.to_le_bytes(),
        &[0xff, 0xe0], // jmp rax
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::slice::from_ref;

    use super::super::bzimage::tests::file;
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn parts_lie_apart_in_one_range_of_ram() {
        let file = file(b"code");
        let image = BzImage::parse(&file).unwrap();
        let initrd = vec![1; 5000];
        let ram = [0..0xa_0000, MIB..32 * MIB, 64 * MIB + 5..256 * MIB];
        let layout = Layout::choose(&image, 5000, &ram).unwrap();
        assert_eq!(
            layout.kernel,
            66 * MIB,
            "48 MiB from a multiple of 2 MiB on"
        );
        let segments = layout.segments(&image, &initrd, vec![0; PARAMETERS_SIZE], "quiet");
        let mut end = 0;
        for segment in &segments {
            assert!(segment.address >= end && segment.address.is_multiple_of(PAGE));
            assert!(
                segment.size.is_multiple_of(PAGE) && segment.bytes.len() as u64 <= segment.size
            );
            end = segment.address + segment.size;
        }
        assert!(end <= 256 * MIB);
        let small = &segments[1];
        let at = |address: u64| &small.bytes[(address - small.address) as usize..];
        assert_eq!(at(layout.command_line()), b"quiet\0");
        assert_eq!(at(layout.entry())[..2], [0x48, 0xbe]);
        assert_eq!(at(layout.entry())[2..10], small.address.to_le_bytes());
        assert_eq!(
            at(layout.entry())[12..20],
            (layout.kernel + 0x200).to_le_bytes()
        );
    }

    #[test]
    fn memory_in_small_pieces_or_above_the_initrds_limit_is_refused() {
        let file = file(b"code");
        let image = BzImage::parse(&file).unwrap();
        for ram in [16 * MIB..64 * MIB, 4096 * MIB..8192 * MIB, 0..40 * MIB] {
            assert!(
                Layout::choose(&image, 5000, from_ref(&ram)).is_err(),
                "{ram:?}"
            );
        }
        let all = 0..u64::MAX;
        assert!(Layout::choose(&image, u64::MAX / 2, from_ref(&all)).is_err());
    }
}
