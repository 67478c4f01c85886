//! A kernel for x86 with its setup header (Documentation/arch/x86/boot.rst).

use anyhow::{Context, ensure};
use bigiron_format::bytes::Endian;

/// The setup header in the file and in the boot parameters.
pub const HEADER_AT: usize = 0x1f1;
/// Bytes of a sector of the setup code.
const SECTOR: usize = 512;
/// First version with `init_size` and `pref_address`; xloadflags came with 2.12.
const MIN_VERSION: u16 = 0x020c;
/// `xloadflags`: the kernel has a 64-bit entry at 0x200.
const KERNEL_64: u16 = 1;
const ENDIAN: Endian = Endian::Little;

/// A kernel image.
pub struct BzImage<'a> {
    /// The setup header, for the boot parameters.
    pub header: &'a [u8],
    /// The protected-mode code.
    pub code: &'a [u8],
    /// Alignment of the address that it is loaded at.
    pub alignment: u64,
    /// Memory that it needs from there on until it has a memory map.
    pub init_size: u64,
    /// The highest address of an initrd.
    pub initrd_max: u64,
    /// Maximum length of the command line.
    cmdline_size: u32,
}

impl<'a> BzImage<'a> {
    /// Parses the setup header.
    ///
    /// # Errors
    /// The file is no such kernel, or has no 64-bit entry.
    pub fn parse(file: &'a [u8]) -> anyhow::Result<Self> {
        let byte = |at: usize| file.get(at).copied();
        let word = |at: usize| ENDIAN.u32(file, at);
        let half = |at: usize| word(at).map(|word| (word & 0xffff) as u16);
        ensure!(
            file.get(0x202..0x206) == Some(b"HdrS"),
            "the kernel is no bzImage: no HdrS at offset 0x202"
        );
        let version = half(0x206).unwrap_or(0);
        ensure!(
            version >= MIN_VERSION,
            "the kernel's boot protocol is {version:#x}; at least {MIN_VERSION:#x} is needed"
        );
        let parse = || {
            let header_end = 0x202 + usize::from(byte(0x201)?);
            let sectors = match byte(HEADER_AT)? {
                0 => 4,
                sectors => usize::from(sectors),
            };
            let is_64 = half(0x236)? & KERNEL_64 != 0;
            Some((
                Self {
                    header: file.get(HEADER_AT..header_end)?,
                    code: file.get((sectors + 1) * SECTOR..)?,
                    alignment: u64::from(word(0x230)?),
                    init_size: u64::from(word(0x260)?),
                    initrd_max: u64::from(word(0x22c)?),
                    cmdline_size: word(0x238)?,
                },
                is_64,
            ))
        };
        let (image, is_64) = parse().context("the kernel's file is truncated")?;
        ensure!(is_64, "the kernel has no 64-bit entry");
        let is_sound = image.alignment.is_power_of_two()
            && image.alignment >= 4096
            && image.code.len() as u64 <= image.init_size
            && (0x264..0x2d0).contains(&(HEADER_AT + image.header.len()));
        ensure!(is_sound, "the kernel's setup header is damaged");
        Ok(image)
    }

    /// Returns an error if the command line is longer than the kernel takes.
    pub fn check_command_line(&self, line: &str) -> anyhow::Result<()> {
        ensure!(
            line.len() <= self.cmdline_size as usize && !line.contains('\0'),
            "the command line has {} bytes; the kernel takes {}",
            line.len(),
            self.cmdline_size
        );
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    /// A kernel whose code is `code`.
    pub fn file(code: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 2 * SECTOR];
        file[HEADER_AT] = 1;
        file[0x201] = 0x6a;
        file[0x202..0x206].copy_from_slice(b"HdrS");
        for (at, value) in [
            (0x206, 0x020f),
            (0x22c, 0x7fff_ffff),
            (0x230, 0x20_0000),
            (0x236, 0x3f),
            (0x238, 2047),
            (0x260, 0x300_0000),
        ] {
            ENDIAN.put_u32(&mut file, at, value);
        }
        ENDIAN.put_u32(&mut file, 0x236, 0x3f | 2047 << 16);
        ENDIAN.put_u32(&mut file, 0x238, 2047);
        file.extend(code);
        file
    }

    #[test]
    fn header_of_a_kernel_is_parsed_and_its_code_follows_the_setup_sectors() {
        let file = file(b"code");
        let image = BzImage::parse(&file).unwrap();
        assert_eq!(image.code, b"code");
        assert_eq!((image.alignment, image.init_size), (0x20_0000, 0x300_0000));
        image.check_command_line(&"x".repeat(2047)).unwrap();
        assert!(image.check_command_line(&"x".repeat(2048)).is_err());
    }

    #[test]
    fn damaged_kernels_are_refused() {
        let sound = file(b"code");
        for (at, value) in [
            (0x202, 0),
            (0x207, 1),
            (0x201, 0xff),
            (0x236, 0),
            (0x230, 3),
            (0x263, 0xff),
        ] {
            let mut damaged = sound.clone();
            damaged[at] = value;
            let accepted = BzImage::parse(&damaged).is_ok();
            // A larger init_size is a kernel that needs more memory.
            assert_eq!(accepted, at == 0x263, "offset {at:#x}");
        }
        for length in [0, 0x1f1, 0x206, 0x240] {
            assert!(
                BzImage::parse(&sound[..length]).is_err(),
                "{length:#x} bytes"
            );
        }
    }
}
