//! What the memory of the crashed kernel tells about how it was started and how it ended.

use std::collections::VecDeque;
use std::ops::Range;

use anyhow::{Context, ensure};
use bigiron_format::VirtAddr;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_kernel::Kernel;
use bigiron_kernel::printk::Log;
use bigiron_kernel::source::{MemorySource, SECTION_FRAMES};
use bigiron_kernel::symbols::kallsyms;

/// Lines of the log that are kept: an oops with its trace has about 60.
const LAST_LINES: usize = 200;
/// Lines older than this before the last one belong to no crash, in nanoseconds.
const LAST_TIME: u64 = 60_000_000_000;
/// Maximum length of a command line in bytes; x86's is 2048 (COMMAND_LINE_SIZE).
const MAX_COMMAND_LINE: usize = 2048;
/// Maximum number of entries of a memory map in the boot parameters
/// (E820_MAX_ENTRIES_ZEROPAGE).
pub const MAX_MAP_ENTRIES: usize = 128;
/// Size of an entry of struct e820_table (arch/x86/include/asm/e820/types.h).
pub const MAP_ENTRY: usize = 20;

/// Facts about the crashed kernel.
pub struct Crashed {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// Its command line.
    pub command_line: String,
    /// Seconds from its start to its last message.
    pub uptime: u64,
    /// The last lines of its log.
    pub last_lines: Vec<String>,
    /// The firmware's memory map as it was given to the kernel, in the form of the boot
    /// parameters: entries of [`MAP_ENTRY`] bytes.
    pub memory_map: Vec<u8>,
    /// Its RAM, without the crash kernel's and without memory that is kept for dumps, in order.
    pub ram: Vec<Range<u64>>,
}

impl Crashed {
    /// Reads the facts.
    ///
    /// # Errors
    /// Any of them is missing or damaged.
    pub fn read(kernel: &Kernel) -> anyhow::Result<Self> {
        let symbols = kallsyms::read(kernel)?;
        let symbols = symbols.context("VMCOREINFO names no kallsyms (Linux 6.0 and later do)")?;
        let pointer = |name: &'static str| {
            let symbol = symbols.find(name).with_context(|| {
                format!("the kernel has no symbol {name} (CONFIG_KALLSYMS_ALL)")
            })?;
            let address = kernel.read_u64(name, symbol.address)?;
            anyhow::Ok(VirtAddr(address))
        };
        let command_line = read_command_line(kernel, pointer("saved_command_line")?)?;
        let memory_map = read_memory_map(kernel, pointer("e820_table_kexec")?)?;
        let (last_lines, uptime) = read_last_lines(kernel)?;
        Ok(Self {
            release: kernel.utsname().release().to_owned(),
            command_line,
            uptime,
            last_lines,
            memory_map,
            ram: ram(kernel.source())?,
        })
    }
}

fn read_command_line(kernel: &Kernel, address: VirtAddr) -> anyhow::Result<String> {
    let mut text = Vec::new();
    // Byte by byte: the string may end before a page that is not mapped.
    for at in 0..=MAX_COMMAND_LINE as u64 {
        let mut byte = [0];
        let next = address
            .checked_add(at)
            .context("saved_command_line is no address")?;
        kernel.read("saved_command_line", next, &mut byte)?;
        if byte == [0] {
            let text = String::from_utf8(text)
                .ok()
                .filter(|line| !line.contains('\n'));
            return text.context("saved_command_line is no text");
        }
        text.push(byte[0]);
    }
    anyhow::bail!("saved_command_line is longer than {MAX_COMMAND_LINE} bytes")
}

/// Reads struct e820_table: the number of entries, and entries of address, size and type.
fn read_memory_map(kernel: &Kernel, address: VirtAddr) -> anyhow::Result<Vec<u8>> {
    let count = kernel.read_u32("e820_table_kexec", address)? as usize;
    ensure!(
        (1..=MAX_MAP_ENTRIES).contains(&count),
        "e820_table_kexec has {count} entries, not 1 to {MAX_MAP_ENTRIES}"
    );
    let first = address
        .checked_add(4)
        .context("e820_table_kexec is no address")?;
    let mut entries = vec![0; count * MAP_ENTRY];
    kernel.read("e820_table_kexec", first, &mut entries)?;
    clean_memory_map(&mut entries);
    Ok(entries)
}

/// Makes RAM of what the crashed kernel reserved for itself (E820_TYPE_RESERVED_KERN).
fn clean_memory_map(entries: &mut [u8]) {
    const RAM: u32 = 1;
    const RESERVED_KERN: u32 = 128;
    for entry in entries.chunks_exact_mut(MAP_ENTRY) {
        if Endian::Little.u32(entry, 16) == Some(RESERVED_KERN) {
            Endian::Little.put_u32(entry, 16, RAM);
        }
    }
}

/// Returns the last lines of the log, and the time of the last one in seconds.
fn read_last_lines(kernel: &Kernel) -> anyhow::Result<(Vec<String>, u64)> {
    let mut lines = VecDeque::new();
    Log::open(kernel)?.for_each(false, &mut |record| {
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        let text = String::from_utf8_lossy(record.text.bytes()).into_owned();
        lines.push_back((record.ts_nsec.unwrap_or(0), text));
        Ok(())
    })?;
    let last = lines.back().map_or(0, |(time, _)| *time);
    let recent = lines
        .into_iter()
        .filter(|(time, _)| last.saturating_sub(*time) <= LAST_TIME);
    Ok((recent.map(|(_, text)| text).collect(), last / 1_000_000_000))
}

/// Returns the ranges of RAM of a source, in bytes.
fn ram(source: &dyn MemorySource) -> anyhow::Result<Vec<Range<u64>>> {
    let (shift, frames) = (source.page_shift(), SECTION_FRAMES as usize);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for first in source.sections() {
        let mut bits = Bitmap::new(frames);
        source.ram(first, &mut bits)?;
        let mut from = 0;
        while let Some((start, length)) = bits.next_run(from, frames, frames) {
            let end = start + length;
            let run = (first.0 + start as u64) << shift..(first.0 + end as u64) << shift;
            match ranges.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => ranges.push(run),
            }
            from = end;
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::path::PathBuf;

    use bigiron_kernel::Source;
    use bigiron_synth::{ElfShape, Synth};

    use super::*;

    #[test]
    fn ram_is_that_of_the_source_with_its_holes() {
        let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x1fff 0x10000-0x11fff\n";
        let core = Synth::from_text(text).unwrap().elf(&ElfShape::vmcore());
        let source = Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap();
        let found = ram(source.memory()).unwrap();
        assert_eq!(
            found,
            [0..0xa_0000, 0x10_0000..0x200_0000, 0x1000_0000..0x1200_0000]
        );
    }

    #[test]
    fn memory_of_the_kernels_own_parameters_becomes_ram_again() {
        let mut entries = vec![0; 2 * MAP_ENTRY];
        Endian::Little.put_u32(&mut entries, 16, 128);
        Endian::Little.put_u32(&mut entries, MAP_ENTRY + 16, 2);
        clean_memory_map(&mut entries);
        assert_eq!(Endian::Little.u32(&entries, 16), Some(1));
        assert_eq!(Endian::Little.u32(&entries, MAP_ENTRY + 16), Some(2));
    }
}
