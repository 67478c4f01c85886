//! The section with the guest's RAM (QEMU's migration/ram.c, ram_load_precopy).

use super::cursor::Cursor;
use super::runs::{Contents, Runs};
use super::{Block, MAX_BLOCKS};
use crate::error::FormatError;
use crate::image::ADDRESS_LIMIT;

/// The version of the section.
pub(super) const RAM_VERSION: u32 = 4;

const ZERO: u64 = 0x02;
const MEM_SIZE: u64 = 0x04;
const PAGE: u64 = 0x08;
const END: u64 = 0x10;
/// The page is in the block of the one before.
const CONTINUE: u64 = 0x20;
/// Flags of other ways to send pages, with their names.
const OTHERS: [(u64, &str); 4] = [
    (0x40, "changes of pages (xbzrle)"),
    (0x80, "pages sent by RDMA"),
    (0x100, "compressed pages (compress)"),
    (0x200, "pages in other channels (multifd)"),
];
/// Bytes before the data of a page in the block of the one before.
const ENTRY: u64 = 8;

/// The RAM read so far.
pub(super) struct Ram {
    pub(super) page_shift: u32,
    pub(super) blocks: Vec<Block>,
    pub(super) runs: Runs,
    /// Index of the block of the page before.
    block: Option<usize>,
}

impl Ram {
    pub(super) fn new(page_shift: u32) -> Self {
        Self {
            page_shift,
            blocks: Vec::new(),
            runs: Runs::default(),
            block: None,
        }
    }

    /// Reads a part of the section, up to its end mark.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FormatError> {
        let page_size = 1 << self.page_shift;
        loop {
            let at = cursor.offset();
            let word = cursor.u64("a page of the stream")?;
            let (offset, flags) = (word & !(page_size - 1), word & (page_size - 1));
            match flags & !CONTINUE {
                END => return Ok(()),
                MEM_SIZE => self.read_blocks(cursor, offset)?,
                ZERO => {
                    let page = self.page(cursor, flags, offset, at)?;
                    let fill = cursor.u8("a page of the stream")?;
                    self.runs.push(page, Contents::Filled(fill), at)?;
                }
                PAGE => {
                    let page = self.page(cursor, flags, offset, at)?;
                    let contents = Contents::Data {
                        offset: cursor.offset(),
                        stride: page_size + ENTRY,
                    };
                    cursor.skip("a page of the stream", page_size)?;
                    self.runs.push(page, contents, at)?;
                }
                other => return Err(unknown(at, other)),
            }
        }
    }

    /// Reads the names and sizes of the blocks, which have `total` bytes together.
    fn read_blocks(&mut self, cursor: &mut Cursor<'_>, total: u64) -> Result<(), FormatError> {
        if total > ADDRESS_LIMIT {
            return Err(FormatError::unexpected(
                "the size of the RAM",
                cursor.offset(),
                format!("at most {ADDRESS_LIMIT:#x}"),
                format!("{total:#x}"),
            ));
        }
        let mut left = total;
        let mut first_page = 0;
        self.blocks.clear();
        while left > 0 {
            let name = cursor.name("the name of a RAM block")?;
            let at = cursor.offset();
            let size = cursor.u64("the size of a RAM block")?;
            let pages = size >> self.page_shift;
            if size == 0 || size > left || pages << self.page_shift != size {
                let expected = format!("whole pages, at most {left:#x} bytes");
                return Err(FormatError::unexpected(
                    "the size of a RAM block",
                    at,
                    expected,
                    format!("{size:#x}"),
                ));
            }
            if self.blocks.len() == MAX_BLOCKS {
                return Err(FormatError::unexpected(
                    "the number of RAM blocks",
                    at,
                    format!("at most {MAX_BLOCKS}"),
                    "more",
                ));
            }
            self.blocks.push(Block {
                name,
                first_page,
                pages,
            });
            first_page += pages;
            left -= size;
        }
        Ok(())
    }

    /// Returns the number of a page among those of all blocks.
    fn page(
        &mut self,
        cursor: &mut Cursor<'_>,
        flags: u64,
        offset: u64,
        at: u64,
    ) -> Result<u64, FormatError> {
        if flags & CONTINUE == 0 {
            let name = cursor.name("the RAM block of a page")?;
            self.block = self.blocks.iter().position(|block| block.name == name);
            if self.block.is_none() {
                return Err(FormatError::unexpected(
                    "the RAM block of a page",
                    at,
                    "one of the listed blocks",
                    format!("{name:?}"),
                ));
            }
        }
        let block = self.block.and_then(|index| self.blocks.get(index));
        let page = offset >> self.page_shift;
        let page = block.and_then(|block| (page < block.pages).then(|| block.first_page + page));
        page.ok_or_else(|| {
            FormatError::unexpected(
                "the offset of a page in its RAM block",
                at,
                "one inside a block",
                format!("{offset:#x}"),
            )
        })
    }
}

fn unknown(at: u64, flags: u64) -> FormatError {
    let known = OTHERS.iter().find(|(flag, _)| flags & flag != 0);
    let found = match known {
        Some((_, name)) => format!("{name}, which are not read"),
        None => format!("{flags:#x}"),
    };
    FormatError::unexpected(
        "the flags of a page",
        at,
        "a page, a page of zeros, or an end",
        found,
    )
}
