//! A machine of any size whose memory is stored nowhere: every page is made
//! when it is read, and is always the same.
//!
//! It has the memory map, page tables and VMCOREINFO of a real kernel, RAM
//! with holes, and blocks of memory in realistic shares, so all of the dump
//! engine works on it as on a crashed machine. And it knows what every page
//! frame is, to hold the filter against.

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

/// The largest machine: its page frames fit 46 bits of physical address.
pub const LARGEST: u64 = 32 << 40;

/// What a machine is like.
#[derive(Clone, Copy, Debug)]
pub struct MachineOptions {
    /// RAM in bytes, up to [`LARGEST`]; rounded up to whole sections of 128 MiB.
    pub size: u64,
    /// Another seed, another machine.
    pub seed: u64,
    /// What memory is used for.
    pub mixture: Mixture,
    /// Only every so many-th section has the pages that a dump of level 31
    /// keeps, as if the others had been left out before. The filter has all
    /// its work, the copy a sample of it.
    pub kept_data_every: u64,
    /// Only every so many-th section has struct pages; the others have no
    /// pages either, and stay a chunk of their own in every table.
    pub struct_pages_every: u64,
}

impl MachineOptions {
    /// A machine with all of its `size` bytes.
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

/// A machine made by rule.
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
    /// Makes the rules of a machine; its memory comes when it is read.
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

    /// Its name in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it was made by; the size is the one it has.
    pub fn options(&self) -> MachineOptions {
        MachineOptions {
            size: self.layout.frames() * layout::PAGE as u64,
            ..self.options
        }
    }

    /// Page frames of RAM.
    pub fn ram_frames(&self) -> u64 {
        self.layout.frames()
    }

    /// Page frames by class, of those that the source has.
    pub fn present_counts(&self) -> ClassCounts {
        self.counts
    }

    /// The class of a page frame; `None` outside of RAM.
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

    /// Whether a sample of every `every`-th section has the `ordinal`-th. The
    /// last one is in every sample, since it tells where memory ends.
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

    /// Goes over the blocks of a section: first frame, kind, and whether the
    /// source has their pages.
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

    /// Counts what the kernel would count: free pages, and what a dump finds.
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
