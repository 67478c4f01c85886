//! A machine of any size whose memory is not stored: every page is generated when it is read,
//! and is the same each time.
//!
//! It has the memory map, page tables and VMCOREINFO of a real kernel, RAM with holes, and
//! blocks of memory in realistic shares, so the whole dump engine works on it as on a crashed
//! machine. The generator knows the class of every page frame, which allows the filter to be
//! checked.

mod blocks;
mod contents;
mod hash;
mod layout;
mod reader;
mod struct_pages;
mod tables;
mod vmcoreinfo;

use std::path::{Path, PathBuf};

use bigiron_format::PageFrame;
use bigiron_format::bytes::Endian;

pub use blocks::{ClassCounts, FrameClass, Mixture};

use blocks::{BLOCK_FRAMES, BlockKind};
use contents::Contents;
use layout::{Layout, SECTION_FRAMES};
use tables::FreePages;

/// Size of the largest machine in bytes: its page frames fit 46 bits of physical address.
pub const LARGEST: u64 = 32 << 40;

/// Description of a machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineOptions {
    /// RAM in bytes, up to [`LARGEST`]; rounded up to whole sections of 128 MiB.
    pub size: u64,
    /// Seed of all contents.
    pub seed: u64,
    /// Shares of memory by use.
    pub mixture: Mixture,
    /// The pages that a dump of level 31 keeps are present only in every n-th section, as if an
    /// earlier dump had excluded the others. The filter does all its work; the copy does a
    /// sample.
    pub kept_data_every: u64,
    /// Struct pages are present only in every n-th section. The other sections have no pages,
    /// but still count as sections in every table.
    pub struct_pages_every: u64,
}

impl MachineOptions {
    /// Describes a machine of `size` bytes without sampling.
    pub fn whole(size: u64) -> Self {
        Self {
            size,
            seed: 1,
            mixture: Mixture::DATABASE,
            kept_data_every: 1,
            struct_pages_every: 1,
        }
    }
}

/// A generated machine.
pub struct GeneratedMachine {
    options: MachineOptions,
    layout: Layout,
    contents: Contents,
    free: FreePages,
    counts: ClassCounts,
    notes: Vec<u8>,
    text: String,
    path: PathBuf,
}

impl GeneratedMachine {
    /// Prepares a machine. Its memory is generated when it is read.
    pub fn new(options: MachineOptions) -> Self {
        let size = options.size.min(LARGEST);
        let text = vmcoreinfo::text();
        let note = bigiron_format::elf::note::VMCOREINFO;
        let mut machine = Self {
            options: MachineOptions { size, ..options },
            layout: Layout::new(size),
            contents: Contents::new(options.seed),
            free: FreePages::default(),
            counts: ClassCounts::default(),
            notes: bigiron_format::elf::note::encode(note, 0, text.as_bytes(), Endian::Little),
            text,
            path: PathBuf::from(format!("(a generated machine of {size} bytes)")),
        };
        machine.count();
        machine
    }

    /// Returns the machine's name in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the machine's description, with the size rounded up.
    pub fn options(&self) -> MachineOptions {
        MachineOptions {
            size: self.layout.frames() * layout::PAGE as u64,
            ..self.options
        }
    }

    /// Returns the number of page frames of RAM.
    pub fn ram_frames(&self) -> u64 {
        self.layout.frames()
    }

    /// Returns the number of page frames by class, of those present in the source.
    pub fn present_counts(&self) -> ClassCounts {
        self.counts
    }

    /// Returns the class of a page frame; `None` outside RAM.
    pub fn class(&self, frame: PageFrame) -> Option<FrameClass> {
        let ram = self.layout.is_ram(frame.0);
        ram.then(|| self.block(frame.0).class(frame.0))
    }

    fn block(&self, frame: u64) -> BlockKind {
        let first = frame & !(BLOCK_FRAMES - 1);
        BlockKind::of(
            &self.layout,
            &self.options.mixture,
            self.options.seed,
            first,
        )
    }

    /// True if a sample of every `every`-th section contains the section with index `ordinal`.
    /// Every sample contains the last section, because it determines the end of memory.
    fn is_sampled(&self, ordinal: u64, every: u64) -> bool {
        let last = self.layout.frames() / SECTION_FRAMES - 1;
        ordinal.is_multiple_of(every.max(1)) || ordinal == last
    }

    fn has_mem_map(&self, ordinal: u64) -> bool {
        self.is_sampled(ordinal, self.options.struct_pages_every)
    }

    fn has_kept_data(&self, ordinal: u64) -> bool {
        self.is_sampled(ordinal, self.options.kept_data_every)
    }

    /// Calls `action` for each block of a section, with its first frame, its kind, and true if
    /// the source has its pages.
    fn for_each_block(&self, section: u64, mut action: impl FnMut(u64, BlockKind, bool)) {
        let Some(ordinal) = self.layout.ordinal(section) else {
            return;
        };
        let (mapped, kept) = (self.has_mem_map(ordinal), self.has_kept_data(ordinal));
        let start = section * SECTION_FRAMES;
        for first in (start..start + SECTION_FRAMES).step_by(BLOCK_FRAMES as usize) {
            let kind = self.block(first);
            action(first, kind, mapped && (kept || kind.is_left_out()));
        }
    }

    /// Counts free pages, as the kernel does, and the page frames that a dump finds.
    fn count(&mut self) {
        let (mut free, mut counts) = (FreePages::default(), ClassCounts::default());
        for ordinal in 0..self.layout.frames() / SECTION_FRAMES {
            let Some(section) = self.layout.section(ordinal) else {
                continue;
            };
            self.for_each_block(section, |first, kind, present| {
                if present {
                    kind.count(&mut counts);
                    if matches!(kind, BlockKind::Free(_)) {
                        let (node, zone) = self.layout.place(first);
                        free[node as usize][zone as usize] += BLOCK_FRAMES;
                    }
                }
            });
        }
        (self.free, self.counts) = (free, counts);
    }
}
