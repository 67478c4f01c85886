//! `bigiron read`: memory of a dump, as bytes or as typed values.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_inspect::value::why_unread;
use bigiron_inspect::{InspectError, Limits, Location, Program, Space, Value};
use bigiron_kernel::{Kernel, KernelError};
use clap::Args;
use serde::Serialize;

use crate::arguments::SourceArguments;
use crate::source;
use crate::tell::{is_closed_pipe, print, tell};

/// Bytes per line.
const LINE: u64 = 16;
/// Maximum size in bytes of a value whose type comes from the dump.
const MAX_SIZE: u64 = 256 << 20;
/// Boundary that no read crosses; no page is smaller.
const BOUNDARY: u64 = 4096;

/// `bigiron read`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ReadArguments {
    /// The dump, in any format; parts of a split or striped one as A,B,C
    dump: PathBuf,
    /// The location: an address, a symbol, or a path from there
    #[arg(value_name = "ADDRESS|SYMBOL")]
    place: String,
    /// The type at the address or symbol
    #[arg(value_name = "TYPE")]
    written: Option<String>,
    /// The CPU whose copy of a per-CPU variable is read
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Treat the address as physical
    #[arg(long)]
    physical: bool,
    /// Show this number of bytes instead of a value [default: 256, or the size of the type]
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = crate::size::parse)]
    length: Option<u64>,
    /// Write the raw bytes to standard output
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Nesting depth of structs shown; anonymous ones do not count
    #[arg(long, value_name = "N", default_value_t = 4)]
    depth: u8,
    /// Show all elements of arrays, including repeated ones
    #[arg(long)]
    full: bool,
    /// Print the value as JSON
    #[arg(long)]
    json: bool,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
The location begins with a symbol or a hexadecimal address, followed by +OFFSET in hexadecimal, @CPU for a \
per-CPU variable, and then .member, ->member and [index].

TYPE is the type at the symbol or address: task_struct, 'struct page', 'char*', 'list_head[16]'. Without it, \
the type is known for per-CPU variables and some others such as init_task; for all others, bytes are shown.

Missing data is reported in its place. A pointer is followed by the symbol that it points into, and a pointer to \
char by the text.

Exit status: 0 everything was read; 1 the location does not exist, or bytes of it are not in the dump.

Examples:
  bigiron read vmcore init_task
  bigiron read vmcore init_task.real_parent->comm
  bigiron read vmcore runqueues@1.nr_running
  bigiron read vmcore ffff888003a51980 'struct super_block' --depth 1
  bigiron read vmcore --raw -n 1M --physical 1000000 > bytes";

/// A value as JSON.
#[derive(Serialize)]
struct JsonValue<'a> {
    place: &'a str,
    address: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(flatten)]
    value: &'a Value,
}

/// Prints the memory at the location.
pub fn run(arguments: &ReadArguments) -> anyhow::Result<()> {
    let parts = source::parts_of(&arguments.dump);
    source::with_kernel(&parts, &arguments.source, |kernel| {
        let space = match arguments.physical {
            true => Space::Physical,
            false => Space::Virtual,
        };
        // Bytes at an address need no symbols, which a dump may lack.
        let plain = hexadecimal(&arguments.place);
        let wants_bytes = arguments.raw || arguments.length.is_some();
        if let (Some(address), None, true) =
            (plain, &arguments.written, wants_bytes || arguments.physical)
        {
            anyhow::ensure!(!arguments.json, "--json requires a TYPE");
            return Bytes { kernel, space }.show(
                address,
                arguments.length.unwrap_or(256),
                arguments.raw,
            );
        }
        let program = match Program::open(kernel) {
            // Bytes at a symbol need no types.
            Err(InspectError::NoTypes) if arguments.written.is_none() => {
                Program::open_symbols(kernel)?
            }
            other => other?,
        };
        let written = arguments.written.as_deref();
        let location =
            Location::resolve(&program, &arguments.place, written, arguments.cpu, space)?;
        let limits = Limits {
            depth: usize::from(arguments.depth),
            elements: match arguments.full {
                true => None,
                false => Limits::default().elements,
            },
        };
        let value = match wants_bytes {
            true => None,
            false => location.value(&program, limits),
        };
        let Some(value) = value else {
            anyhow::ensure!(
                !arguments.json,
                "--json requires a TYPE, and neither --raw nor --length"
            );
            let size = location.size().filter(|size| *size > 0).unwrap_or(256);
            anyhow::ensure!(
                arguments.length.is_some() || size <= MAX_SIZE,
                "{}: its type has {size} bytes; choose how many to read with --length",
                arguments.place
            );
            let len = arguments.length.unwrap_or(size);
            return Bytes {
                kernel,
                space: location.space,
            }
            .show(location.address.0, len, arguments.raw);
        };
        let type_name = location.type_name().unwrap_or_default();
        if arguments.json {
            let object = JsonValue {
                place: &arguments.place,
                address: format!("{:#x}", location.address.0),
                type_name,
                value: &value,
            };
            print(&(serde_json::to_string(&object)? + "\n"))?;
        } else {
            let place = &arguments.place;
            let head = format!("// {type_name} at {:016x}\n", location.address.0);
            print(&format!("{head}{place} = {}\n", value.text()))?;
        }
        // A value that is partly missing is shown; one that is completely missing is an error.
        match value {
            Value::Unread { reason } => anyhow::bail!("{}: {reason}", arguments.place),
            _ => Ok(()),
        }
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Access to the bytes of a dump's memory.
struct Bytes<'k, 's> {
    kernel: &'k Kernel<'s>,
    space: Space,
}

impl Bytes<'_, '_> {
    /// Prints `len` bytes from `start`, raw or formatted.
    fn show(&self, start: u64, len: u64, raw: bool) -> anyhow::Result<()> {
        let mut missing = 0;
        let mut piece = [0; BOUNDARY as usize];
        let mut done = 0;
        while done < len {
            let Some(at) = start.checked_add(done) else {
                anyhow::bail!("there is no memory beyond address {:016x}", u64::MAX);
            };
            let count = (BOUNDARY - at % BOUNDARY).min(len - done);
            let bytes = &mut piece[..count as usize];
            match self.read(at, bytes) {
                Ok(()) if raw => match std::io::stdout().lock().write_all(bytes) {
                    Err(error) if is_closed_pipe(&error) => return Ok(()),
                    other => other?,
                },
                Ok(()) => print(&lines(at, bytes))?,
                Err(error) => {
                    let reason = why_unread(&error.into());
                    if raw {
                        anyhow::bail!("{at:016x}: {reason}; {done} bytes were written");
                    }
                    missing += count;
                    print(&format!("{at:016x}  {count} bytes: {reason}\n"))?;
                }
            }
            done += count;
        }
        if raw {
            std::io::stdout().lock().flush()?;
        }
        if missing > 0 {
            tell!("bigiron: {missing} of {len} bytes could not be read");
        }
        anyhow::ensure!(missing == 0, "not all bytes are in the dump");
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), KernelError> {
        match self.space {
            Space::Virtual => self.kernel.read("bytes", VirtAddr(at), bytes),
            Space::Physical => Ok(self.kernel.memory().read(PhysAddr(at), bytes)?),
        }
    }
}

/// Formats lines of 16 bytes with their address, in hexadecimal and as characters.
fn lines(start: u64, bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = bytes;
    let mut at = start;
    while !rest.is_empty() {
        let first = at % LINE;
        let count = ((LINE - first) as usize).min(rest.len());
        let (line, behind) = rest.split_at(count);
        let _ = write!(out, "{:016x} ", at - first);
        let mut characters = String::new();
        for place in 0..LINE {
            if place == LINE / 2 {
                out.push(' ');
            }
            let byte = place
                .checked_sub(first)
                .and_then(|index| line.get(index as usize));
            match byte {
                Some(byte) => {
                    let _ = write!(out, " {byte:02x}");
                    let shown = byte.is_ascii_graphic() || *byte == b' ';
                    characters.push(if shown { char::from(*byte) } else { '.' });
                }
                None => {
                    out.push_str("   ");
                    characters.push(' ');
                }
            }
        }
        let _ = writeln!(out, "  |{characters}|");
        (rest, at) = (behind, at.wrapping_add(count as u64));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_for_any_start_address() {
        let bytes: Vec<u8> = (0x3e..0x52).collect();
        let expected = "\
000000000000fff0                                             3e 3f  |              >?|
0000000000010000  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|
0000000000010010  50 51                                             |PQ              |
";
        assert_eq!(lines(0xfffe, &bytes), expected);
        assert_eq!(lines(0, b"\x1b\x7f"), lines(0, &[0x1b, 0x7f]));
        assert!(lines(0, &[0x1b]).contains("|.  "));
    }
}
