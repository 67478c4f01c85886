//! VMCOREINFO: what a kernel tells dump tools about itself, as lines of text.
//!
//! ```text
//! OSRELEASE=6.12.0
//! PAGESIZE=4096
//! SYMBOL(swapper_pg_dir)=ffffffff9bc22000
//! OFFSET(page.flags)=0
//! LENGTH(zone.free_area)=11
//! NUMBER(phys_base)=-245366784
//! KERNELOFFSET=19000000
//! ```
//! Source: kernel/vmcore_info.c (before 6.9 kernel/crash_core.c). Symbols and
//! KERNELOFFSET are hexadecimal without a prefix, numbers are signed decimal
//! or hexadecimal with a prefix, everything else is decimal.

use std::collections::HashMap;

use crate::address::VirtAddr;
use crate::error::FormatError;

/// The first line of every VMCOREINFO.
pub const FIRST_KEY: &[u8] = b"OSRELEASE=";

/// Maximum size of VMCOREINFO. The kernel's own limit is one page (VMCOREINFO_BYTES,
/// include/linux/vmcore_info.h), at most 64 KiB.
pub const MAX_SIZE: usize = 64 << 10;

/// The keys and values of VMCOREINFO.
#[derive(Clone, Debug, Default)]
pub struct Vmcoreinfo {
    text: String,
    values: HashMap<String, String>,
}

impl Vmcoreinfo {
    /// Parses a text, up to the first NUL. `offset` is its offset in the file, for messages.
    pub fn parse(text: &[u8], offset: u64) -> Result<Self, FormatError> {
        let end = text
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(text.len());
        let text = &text[..end];
        if text.len() > MAX_SIZE {
            return Err(FormatError::unexpected(
                "VMCOREINFO",
                offset,
                format!("at most {MAX_SIZE} bytes"),
                format!("{} bytes", text.len()),
            ));
        }
        let text = std::str::from_utf8(text).map_err(|error| {
            FormatError::unexpected(
                "VMCOREINFO",
                offset + error.valid_up_to() as u64,
                "text",
                "binary data",
            )
        })?;
        Ok(Self::of_lines(text.to_owned()))
    }

    /// Returns the lines of a damaged text that are text, up to [`MAX_SIZE`]. Other lines may be
    /// wrong, so no page may be excluded by the result.
    pub fn sound_lines(text: &[u8]) -> Self {
        let text = &text[..text.len().min(MAX_SIZE)];
        let lines = text
            .split(|byte| matches!(byte, b'\n' | 0))
            .filter_map(|line| std::str::from_utf8(line).ok());
        Self::of_lines(lines.collect::<Vec<_>>().join("\n"))
    }

    fn of_lines(text: String) -> Self {
        let values = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.trim_end().to_owned()))
            .collect();
        Self { text, values }
    }

    /// The unparsed text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Value of a bare key like `OSRELEASE` or `BUILD-ID`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Address of a symbol, `SYMBOL(name)`.
    pub fn symbol(&self, name: &str) -> Option<VirtAddr> {
        self.hexadecimal(&format!("SYMBOL({name})")).map(VirtAddr)
    }

    /// Size of a type in bytes, `SIZE(name)`.
    pub fn size(&self, name: &str) -> Option<usize> {
        self.decimal(&format!("SIZE({name})"))
    }

    /// Offset of a member in bytes, `OFFSET(type.member)`.
    pub fn offset(&self, name: &str) -> Option<usize> {
        self.decimal(&format!("OFFSET({name})"))
    }

    /// Number of elements of an array, `LENGTH(name)`.
    pub fn length(&self, name: &str) -> Option<usize> {
        self.decimal(&format!("LENGTH({name})"))
    }

    /// Value of a constant or variable, `NUMBER(name)`.
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.value(&format!("NUMBER({name})"))?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
            None => value.parse().ok(),
        }
    }

    /// Release of the kernel, as printed by `uname -r`.
    pub fn release(&self) -> Option<&str> {
        self.value("OSRELEASE")
    }

    /// log2 of the page size, if PAGESIZE is a valid page size.
    pub fn page_shift(&self) -> Option<u32> {
        let size: u64 = self.decimal("PAGESIZE")?;
        let shift = size.checked_ilog2()?;
        (size.is_power_of_two() && (12..=16).contains(&shift)).then_some(shift)
    }

    /// KASLR offset of the kernel image, in bytes.
    pub fn kernel_offset(&self) -> Option<u64> {
        self.hexadecimal("KERNELOFFSET")
    }

    fn decimal<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.value(key)?.parse().ok()
    }

    /// Value of a bare key that is hexadecimal, with or without 0x.
    pub fn hexadecimal(&self, key: &str) -> Option<u64> {
        let value = self.value(key)?;
        u64::from_str_radix(value.strip_prefix("0x").unwrap_or(value), 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_parsed_in_its_base() {
        let text = b"OSRELEASE=6.12.0\nPAGESIZE=4096\nSYMBOL(a)=ffffffff9bc22000\n\
            SIZE(page)=64\nOFFSET(page.flags)=8\nLENGTH(x)=11\nNUMBER(phys_base)=-245366784\n\
            NUMBER(VMALLOC_START)=0xffffcfb5c0000000\nKERNELOFFSET=19000000\nno value here\n";
        let info = Vmcoreinfo::parse(text, 0).unwrap();
        assert_eq!(info.release(), Some("6.12.0"));
        assert_eq!(info.page_shift(), Some(12));
        assert_eq!(info.symbol("a"), Some(VirtAddr(0xffff_ffff_9bc2_2000)));
        assert_eq!(info.size("page"), Some(64));
        assert_eq!(info.offset("page.flags"), Some(8));
        assert_eq!(info.length("x"), Some(11));
        assert_eq!(info.number("phys_base"), Some(-245_366_784));
        assert_eq!(
            info.number("VMALLOC_START"),
            Some(0xffff_cfb5_c000_0000_u64.cast_signed())
        );
        assert_eq!(info.kernel_offset(), Some(0x1900_0000));
        assert_eq!(info.number("absent"), None);
    }

    #[test]
    fn invalid_numbers_and_page_sizes_are_absent() {
        let info = Vmcoreinfo::parse(b"PAGESIZE=4097\nSIZE(page)=-1\nSYMBOL(x)=zz\n\0junk\xff", 0);
        let info = info.unwrap();
        assert_eq!(
            (info.page_shift(), info.size("page"), info.symbol("x")),
            (None, None, None)
        );
    }

    #[test]
    fn sound_lines_of_a_damaged_text_are_read() {
        let text = b"OSRELEASE=6.1\nPAGESIZ\xc5=4096\nNUMBER(phys_base)=-4096\n\0PAGESIZE=8192\n";
        let info = Vmcoreinfo::sound_lines(text);
        assert_eq!(info.release(), Some("6.1"));
        assert_eq!(info.number("phys_base"), Some(-4096));
        assert_eq!(info.text().lines().count(), 4, "{:?}", info.text());
    }

    #[test]
    fn binary_data_is_an_error_with_the_offset() {
        let error = Vmcoreinfo::parse(b"OSRELEASE=\xff\xff", 0x100).unwrap_err();
        assert!(error.to_string().contains("0x10a"), "{error}");
    }
}
