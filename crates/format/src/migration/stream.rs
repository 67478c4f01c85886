//! The sections of a stream, up to the end of the RAM: the state of the devices follows it
//! (QEMU's migration/savevm.c, qemu_loadvm_state_main).

use super::cursor::Cursor;
use super::ram::{RAM_VERSION, Ram};
use super::{Contents, MAGIC, VERSION};
use crate::bytes::ReadAt;
use crate::error::FormatError;

const END_OF_STREAM: u8 = 0;
const START: u8 = 1;
const PART: u8 = 2;
const END: u8 = 3;
const FULL: u8 = 4;
const SUBSECTION: u8 = 5;
const CONFIGURATION: u8 = 7;
const COMMAND: u8 = 8;
const FOOTER: u8 = 0x7e;

/// Size of pages of a stream that does not say so: TARGET_PAGE_BITS of most machines.
const USUAL_PAGE_SHIFT: u32 = 12;
/// Maximum length of the name of a machine type.
const MAX_MACHINE: u32 = 256;
/// Maximum number of capabilities that a stream can need.
const MAX_CAPABILITIES: u32 = 64;

/// Reads a stream that begins at `start`.
pub(super) fn read(file: &dyn ReadAt, start: u64) -> Result<Contents, FormatError> {
    let mut cursor = Cursor::new(file, start);
    let magic = cursor.u32("the header of the stream")?;
    let version = cursor.u32("the header of the stream")?;
    if (magic, version) != (MAGIC, VERSION) {
        return Err(FormatError::unexpected(
            "the header of the stream",
            start,
            format!("{MAGIC:#x}, version {VERSION} (QEVM)"),
            format!("{magic:#x}, version {version}"),
        ));
    }
    let mut machine = String::new();
    let mut page_shift = USUAL_PAGE_SHIFT;
    if cursor.peek() == Some(CONFIGURATION) {
        (machine, page_shift) = configuration(&mut cursor)?;
    }
    let mut reader = Sections {
        ram: Ram::new(page_shift),
        id: None,
        is_complete: false,
    };
    let ended = reader.read(&mut cursor);
    // What was read before the end of a truncated file is good.
    let damage = match ended {
        Ok(()) if reader.is_complete => None,
        Ok(()) => Some("its RAM has no end: it is truncated".to_owned()),
        Err(error @ FormatError::Truncated { .. }) if !reader.ram.blocks.is_empty() => {
            Some(error.to_string())
        }
        Err(error) => return Err(error),
    };
    Ok(Contents {
        machine,
        page_shift,
        blocks: reader.ram.blocks,
        runs: reader.ram.runs,
        damage,
    })
}

/// Reads the name of the machine type, and the size of pages.
fn configuration(cursor: &mut Cursor<'_>) -> Result<(String, u32), FormatError> {
    cursor.u8("the configuration")?;
    let at = cursor.offset();
    let len = cursor.u32("the name of the machine type")?;
    if len > MAX_MACHINE {
        return Err(FormatError::unexpected(
            "the name of the machine type",
            at,
            format!("at most {MAX_MACHINE} bytes"),
            len.to_string(),
        ));
    }
    let mut name = Vec::new();
    for _ in 0..len {
        name.push(cursor.u8("the name of the machine type")?);
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    let mut page_shift = USUAL_PAGE_SHIFT;
    while cursor.peek() == Some(SUBSECTION) {
        cursor.u8("the configuration")?;
        let at = cursor.offset();
        let subsection = cursor.name("a part of the configuration")?;
        cursor.u32("a part of the configuration")?;
        match subsection.as_str() {
            "configuration/target-page-bits" => {
                page_shift = cursor.u32("the page size")?;
                if !(10..=16).contains(&page_shift) {
                    return Err(FormatError::unexpected(
                        "the page size",
                        at,
                        "2^10 to 2^16",
                        format!("2^{page_shift}"),
                    ));
                }
            }
            "configuration/capabilities" => capabilities(cursor)?,
            "configuration/uuid" => cursor.skip("the UUID", 16)?,
            other => {
                return Err(FormatError::unexpected(
                    "a part of the configuration",
                    at,
                    "page size, capabilities or UUID",
                    format!("{other:?}"),
                ));
            }
        }
    }
    Ok((name, page_shift))
}

/// Refuses streams whose RAM is elsewhere or has another form.
fn capabilities(cursor: &mut Cursor<'_>) -> Result<(), FormatError> {
    let at = cursor.offset();
    let count = cursor.u32("the capabilities")?.min(MAX_CAPABILITIES);
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(cursor.name("the name of a capability")?);
    }
    if names.is_empty() {
        return Ok(());
    }
    Err(FormatError::unexpected(
        "the capabilities",
        at,
        "none",
        format!("{}, which is not read", names.join(", ")),
    ))
}

/// The sections read so far.
struct Sections {
    ram: Ram,
    /// Number of the section with the RAM.
    id: Option<u32>,
    is_complete: bool,
}

impl Sections {
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FormatError> {
        loop {
            let at = cursor.offset();
            match cursor.u8("the type of a section")? {
                END_OF_STREAM => return Ok(()),
                START => self.start(cursor)?,
                kind @ (PART | END) => {
                    let id = cursor.u32("the number of a section")?;
                    if Some(id) != self.id {
                        return Err(FormatError::unexpected(
                            "the number of a section",
                            at,
                            "that of the RAM",
                            format!("{id}, of another device, which is not read"),
                        ));
                    }
                    self.ram.read(cursor)?;
                    self.is_complete |= kind == END;
                }
                // The state of devices.
                FULL => return Ok(()),
                COMMAND => {
                    cursor.u16("a command")?;
                    let len = cursor.u16("a command")?;
                    cursor.skip("a command", len.into())?;
                }
                FOOTER => {
                    cursor.u32("the end of a section")?;
                }
                other => {
                    return Err(FormatError::unexpected(
                        "the type of a section",
                        at,
                        "one that QEMU has",
                        other.to_string(),
                    ));
                }
            }
        }
    }

    fn start(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FormatError> {
        let at = cursor.offset();
        let id = cursor.u32("the number of a section")?;
        let name = cursor.name("the name of a section")?;
        cursor.u32("the instance of a section")?;
        let version = cursor.u32("the version of a section")?;
        if name != "ram" || version != RAM_VERSION {
            return Err(FormatError::unexpected(
                "a section",
                at,
                format!("ram, version {RAM_VERSION}"),
                format!("{name}, version {version}, which is not read"),
            ));
        }
        self.id = Some(id);
        self.ram.read(cursor)
    }
}
