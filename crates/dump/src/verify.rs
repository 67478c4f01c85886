//! Compares a dump with its source memory.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{FormatError, PageFrame};
use bigiron_helpers::{Stop, WorkCursor, run};
use bigiron_kernel::erase::ranges::ERASED;
use bigiron_kernel::{IoMethod, MemorySource, PageReader, SECTION_FRAMES, SourceError};

use crate::error::DumpError;
use crate::page::is_zero;
use crate::progress::{Phase, Progress};
use crate::read_pages::read_pages;
use crate::reference::Reference;
use crate::sections::Sections;
use crate::struct_pages::Scan;

/// Pages compared by one call.
const PAGES_AT_ONCE: usize = 64;

/// The result of a verification.
#[derive(Debug, Default)]
pub struct Verification {
    /// Pages that were read.
    pub pages: u64,
    /// Pages among them that rules blanked, which are not compared.
    pub blank: u64,
    /// Pages that the dump marks as lost.
    pub lost: u64,
    /// Page frames of RAM that the dump excludes.
    pub left_out: u64,
    /// Pages in the dump whose data is damaged.
    pub damaged: u64,
    /// The damaged page with the lowest page frame, and its error.
    pub first_damage: Option<(PageFrame, SourceError)>,
    /// Pages of the source that the dump neither has nor leaves out by its dump level.
    pub missing: u64,
    /// The missing page with the lowest page frame.
    pub first_missing: Option<PageFrame>,
}

impl Verification {
    fn add_damage(&mut self, frame: PageFrame, error: SourceError) {
        self.merge(Self {
            damaged: 1,
            first_damage: Some((frame, error)),
            ..Self::default()
        });
    }

    fn add_missing(&mut self, first: PageFrame, count: u64) {
        self.merge(Self {
            missing: count,
            first_missing: Some(first),
            ..Self::default()
        });
    }

    /// Returns true if the dump has, or should have, any page.
    fn has_pages(&self) -> bool {
        self.pages + self.lost + self.damaged > 0
    }

    fn merge(&mut self, other: Self) {
        self.pages += other.pages;
        self.blank += other.blank;
        self.lost += other.lost;
        self.left_out += other.left_out;
        self.damaged += other.damaged;
        let ours = self.first_damage.take().into_iter();
        let both = ours.chain(other.first_damage);
        self.first_damage = both.min_by_key(|(frame, _)| *frame);
        self.missing += other.missing;
        let both = self.first_missing.into_iter().chain(other.first_missing);
        self.first_missing = both.min();
    }
}

/// Reads every page of `dump` and compares it with the reference, if given. The first difference
/// of a page's bytes is an error; lost, damaged and missing pages are counted.
pub fn verify(
    dump: &dyn MemorySource,
    reference: Option<&Reference<'_, '_>>,
    helpers: usize,
    progress: &Progress,
    stop: &Stop,
) -> Result<Verification, DumpError> {
    let sections = match reference {
        Some(reference) => Sections::of_both(dump, reference.source()),
        None => Sections::of(dump),
    };
    if let Some(reference) = reference {
        progress.begin(Phase::Filtering, sections.len() as u64 * SECTION_FRAMES);
        let scan = Scan {
            helpers,
            stop,
            io: IoMethod::Auto,
            progress,
        };
        reference.leave_out_struct_pages(&scan, &Sections::of(reference.source()))?;
    }
    progress.begin(Phase::Copying, sections.len() as u64 * SECTION_FRAMES);
    let cursor = WorkCursor::new(sections.len() as u64);
    let found = run(helpers, stop, |_| {
        let mut pair = Pair {
            dump: dump.reader(IoMethod::Auto),
            source: reference.map(|reference| reference.source().reader(IoMethod::Auto)),
            page_size: 1 << dump.page_shift(),
            skips_blank: reference.is_some_and(Reference::has_blank_pages),
        };
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut found = Verification::default();
        while let Some(index) = cursor.take(stop) {
            let first = sections.at(index as usize).first;
            present.clear();
            ram.clear();
            if first < dump.end_frame() {
                dump.present(first, &mut present)?;
                dump.ram(first, &mut ram)?;
            }
            found.left_out += ram.count().saturating_sub(present.count());
            pair.verify_section(first, &present, &mut found)?;
            if let Some(reference) = reference {
                pair.find_missing(reference, first, &present, &mut found)?;
            }
            progress.add(SECTION_FRAMES);
        }
        Ok::<_, DumpError>(found)
    })?;
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    let mut all = Verification::default();
    found.into_iter().for_each(|found| all.merge(found));
    // Without a filter only a dump without any page is certain to lack some.
    if all.has_pages() && reference.is_some_and(|reference| reference.why_unknown().is_some()) {
        (all.missing, all.first_missing) = (0, None);
    }
    Ok(all)
}

/// Readers of the dump and of the source.
struct Pair<'a> {
    dump: Box<dyn PageReader + 'a>,
    source: Option<Box<dyn PageReader + 'a>>,
    page_size: usize,
    /// Pages that rules blanked are not compared.
    skips_blank: bool,
}

impl Pair<'_> {
    fn verify_section(
        &mut self,
        first: PageFrame,
        present: &Bitmap,
        found: &mut Verification,
    ) -> Result<(), DumpError> {
        let Self {
            dump,
            source,
            page_size,
            skips_blank,
        } = self;
        let next = |from| present.next_run(from, present.len(), PAGES_AT_ONCE);
        read_pages(dump.as_mut(), *page_size, first, 0, next, |frame, pages| {
            match pages {
                Ok(pages) => {
                    if let Some(source) = source {
                        found.blank +=
                            compare(source.as_mut(), frame, pages, *page_size, *skips_blank)?;
                    }
                    found.pages += (pages.len() / *page_size) as u64;
                }
                Err(error) if is_cut_off(&error) => found.lost += 1,
                Err(error) => found.add_damage(frame, error),
            }
            Ok(())
        })
    }

    /// Counts the pages of a section that the source can return and the dump lacks; `present`
    /// are those that the dump has.
    fn find_missing(
        &mut self,
        reference: &Reference<'_, '_>,
        first: PageFrame,
        present: &Bitmap,
        found: &mut Verification,
    ) -> Result<(), DumpError> {
        let Some(source) = self.source.as_deref_mut() else {
            return Ok(());
        };
        let mut missing = Bitmap::new(SECTION_FRAMES as usize);
        reference.expected(source, first, &mut missing)?;
        missing.and_not(present);
        if reference.why_unknown().is_some() {
            if let Some((bit, _)) = missing.next_run(0, missing.len(), 1) {
                found.add_missing(PageFrame(first.0 + bit as u64), missing.count());
            }
            return Ok(());
        }
        let page_size = self.page_size;
        let next = |from| missing.next_run(from, missing.len(), PAGES_AT_ONCE);
        read_pages(source, page_size, first, 0, next, |frame, pages| {
            let pages = pages.unwrap_or_default().chunks_exact(page_size);
            for (index, page) in (0..).zip(pages) {
                if !(reference.excludes_zero() && is_zero(page)) {
                    found.add_missing(PageFrame(frame.0 + index), 1);
                }
            }
            Ok(())
        })
    }
}

/// Compares pages with those of the source; with `skips_blank`, but for blank ones. Returns the
/// number of these.
fn compare(
    source: &mut dyn PageReader,
    first: PageFrame,
    pages: &[u8],
    page_size: usize,
    skips_blank: bool,
) -> Result<u64, DumpError> {
    let count = pages.len() / page_size;
    let (mut done, mut blank) = (0, 0);
    while done < count {
        let frame = PageFrame(first.0 + done as u64);
        let theirs = source
            .pages(frame, count - done)
            .map_err(|error| DumpError::Differs {
                frame,
                reason: format!("it is in the dump but not in the source ({error})"),
            })?;
        let ours = pages[done * page_size..].chunks_exact(page_size);
        for (index, (ours, theirs)) in (0..).zip(ours.zip(theirs.chunks_exact(page_size))) {
            if ours == theirs {
                continue;
            }
            if skips_blank && is_blank(ours) {
                blank += 1;
                continue;
            }
            let mut bytes = (0..).zip(ours.iter().zip(theirs));
            let differing = bytes.find(|(_, (ours, theirs))| ours != theirs);
            let (at, (ours, theirs)) = differing.unwrap_or((0, (&0, &0)));
            return Err(DumpError::Differs {
                frame: PageFrame(frame.0 + index),
                reason: format!(
                    "byte {at:#x} is {ours:#04x} in the dump and {theirs:#04x} in the source"
                ),
            });
        }
        done += theirs.len() / page_size;
    }
    Ok(blank)
}

/// Returns true if a page is as rules leave it.
fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == ERASED)
}

/// Returns true if the page was never written or was cut off with the end of the file.
fn is_cut_off(error: &SourceError) -> bool {
    match error {
        SourceError::Lost { .. } => true,
        SourceError::Format { cause, .. } => matches!(cause, FormatError::Truncated { .. }),
        _ => false,
    }
}
