//! dom0's memory as that of a machine of its own.

use std::path::PathBuf;
use std::sync::Arc;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;
use bigiron_format::{PageFrame, PhysAddr};

use super::domain_frames::{DomainFrames, Lookup};
use crate::error::SourceError;
use crate::source::{
    Extensions, IoMethod, MemorySource, NotedText, PageReader, SECTION_FRAMES, Source, SourceFacts,
};

/// dom0's page frames in a dump of a Xen host. They have dom0's numbers, and its page tables are
/// read as they would be without Xen, so all that reads the memory of a kernel reads dom0's.
pub(crate) struct DomainSource {
    host: Arc<Source>,
    frames: DomainFrames,
    /// Registers of its virtual CPUs.
    notes: Vec<u8>,
    /// Address of a pointer that is read as null.
    hidden: Option<PhysAddr>,
}

/// A page frame of RAM of a section.
struct Frame {
    /// The machine frame.
    machine: u64,
    /// The page frame, counted from the first of the section.
    bit: usize,
    /// True if m2p has been read for it.
    is_sure: bool,
}

impl DomainSource {
    /// `notes` have the registers of its virtual CPUs.
    pub(crate) fn new(host: Arc<Source>, frames: DomainFrames, notes: Vec<u8>) -> Self {
        let hidden = None;
        Self {
            host,
            frames,
            notes,
            hidden,
        }
    }

    /// Makes all readers return null for the pointer at an address, which is aligned.
    pub(crate) fn hide(&mut self, pointer: PhysAddr) {
        self.hidden = Some(pointer);
    }

    /// Returns the page frames of RAM of the section at `first`, by machine frame: those that p2m
    /// has and m2p does not contradict.
    fn ram_of(&self, first: PageFrame) -> Result<Vec<Frame>, SourceError> {
        let mut lookup = Lookup::new(&self.frames, self.host.memory(), IoMethod::Auto);
        let end = first.0.saturating_add(SECTION_FRAMES);
        let end = end.min(self.frames.end());
        let mut found = Vec::new();
        let mut at = first.0;
        while at < end {
            let run = lookup.machine_run(at, end - at)?;
            let len = (run.len() as u64).max(1);
            let frames = run.into_iter().zip(at..).map(|(machine, frame)| Frame {
                machine,
                bit: (frame - first.0) as usize,
                is_sure: true,
            });
            found.extend(frames);
            at += len;
        }
        found.sort_unstable_by_key(|frame| frame.machine);
        let mut kept = Vec::with_capacity(found.len());
        for frame in found {
            match lookup.claimed_frame(frame.machine) {
                Ok(claimed) if claimed == Some(first.0 + frame.bit as u64) => kept.push(frame),
                Ok(_) => {}
                Err(error) if error.is_one_page() => kept.push(Frame {
                    is_sure: false,
                    ..frame
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(kept)
    }
}

impl MemorySource for DomainSource {
    fn kind(&self) -> &'static str {
        "memory of dom0 in a dump of a Xen host"
    }

    fn page_shift(&self) -> u32 {
        self.host.memory().page_shift()
    }

    fn endian(&self) -> Endian {
        self.host.memory().endian()
    }

    fn machine(&self) -> &str {
        self.host.memory().machine()
    }

    fn end_frame(&self) -> PageFrame {
        PageFrame(self.frames.end())
    }

    /// Of its virtual CPUs: the notes of the host have registers of the hypervisor.
    fn notes(&self) -> Notes<'_> {
        Notes::new(&self.notes, self.endian(), 0)
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        None
    }

    fn facts(&self) -> SourceFacts<'_> {
        let host = self.host.memory().facts();
        SourceFacts {
            erase_info: host.erase_info,
            dump_level: host.dump_level,
            codecs: host.codecs,
            damage: host.damage,
            warning: host.warning,
            ..SourceFacts::default()
        }
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            shared_access: self.host.memory().extensions().shared_access,
            ..Extensions::default()
        }
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        for frame in self.ram_of(first)? {
            bits.set_range(frame.bit, frame.bit + 1);
        }
        Ok(())
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        let mut section = None;
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        for frame in self
            .ram_of(first)?
            .into_iter()
            .filter(|frame| frame.is_sure)
        {
            let start = frame.machine / SECTION_FRAMES * SECTION_FRAMES;
            if section != Some(start) {
                self.host.memory().present(PageFrame(start), &mut present)?;
                section = Some(start);
            }
            if present.get((frame.machine - start) as usize) {
                bits.set_range(frame.bit, frame.bit + 1);
            }
        }
        Ok(())
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        let start = first.0 / SECTION_FRAMES * SECTION_FRAMES;
        let mut starts = (start..self.frames.end()).step_by(SECTION_FRAMES as usize);
        let found = starts.find(|start| self.frames.has_ram(*start..start + SECTION_FRAMES));
        found.map(PageFrame)
    }

    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_> {
        let host = self.host.memory();
        Box::new(DomainReader {
            path: self.host.path().to_owned(),
            lookup: Lookup::new(&self.frames, host, io),
            pages: host.reader(io),
            hidden: self.hidden,
            page_size: 1 << host.page_shift(),
            rewritten: Vec::new(),
        })
    }
}

struct DomainReader<'a> {
    path: PathBuf,
    lookup: Lookup<'a>,
    pages: Box<dyn PageReader + 'a>,
    hidden: Option<PhysAddr>,
    page_size: usize,
    /// A page table, or the page with the hidden pointer.
    rewritten: Vec<u8>,
}

impl PageReader for DomainReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let run = self.lookup.machine_run(first.0, count as u64)?;
        let absent = || SourceError::Absent {
            path: self.path.clone(),
            frame: first,
        };
        let start = *run.first().ok_or_else(absent)?;
        if self.lookup.claimed_frame(start)? != Some(first.0) {
            return Err(absent());
        }
        let level = self.lookup.table_level(start)?;
        let hidden = self.hidden.map(|at| (at.0 / self.page_size as u64, at));
        let hidden_here = hidden.filter(|(frame, _)| *frame == first.0);
        if level > 0 || hidden_here.is_some() {
            let page = self.pages.pages(PageFrame(start), 1)?;
            self.rewritten.clear();
            self.rewritten.extend_from_slice(page);
            if level > 0 {
                self.lookup.rewrite(level, &mut self.rewritten)?;
            }
            let pointer = hidden_here.map(|(_, at)| at.0 as usize % self.page_size);
            if let Some(bytes) = pointer.and_then(|at| self.rewritten.get_mut(at..at + 8)) {
                bytes.fill(0);
            }
            return Ok(&self.rewritten);
        }
        // As many as lie behind each other in the machine, up to the next page table.
        let mut len = 1;
        for (machine, expected) in run.iter().zip(start..).skip(1) {
            let frame = first.0 + len as u64;
            let is_next = *machine == expected
                && hidden.is_none_or(|(at, _)| at != frame)
                && matches!(self.lookup.claimed_frame(*machine), Ok(Some(at)) if at == frame)
                && matches!(self.lookup.table_level(*machine), Ok(0));
            if !is_next {
                break;
            }
            len += 1;
        }
        let pages = self.pages.pages(PageFrame(start), len)?;
        // A reader returns no more than it was asked for.
        Ok(&pages[..pages.len().min(len * self.page_size)])
    }
}
