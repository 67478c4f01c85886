//! Compares the page frames and pages of two dumps.

use std::collections::BTreeSet;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_helpers::{Stop, WorkCursor, run};
use bigiron_kernel::{IoMethod, MemorySource, PageReader, SECTION_FRAMES, SourceError};

use crate::error::DumpError;
use crate::frame_runs::{FrameRun, FrameRuns};
use crate::page::are_equal;
use crate::progress::{Phase, Progress};

/// Pages compared by one call.
const PAGES_AT_ONCE: usize = 64;

/// The differences between two dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Number of pages that both dumps have and that are equal.
    pub equal: u64,
    /// Pages that both dumps have, with different bytes.
    pub different: FrameRuns,
    /// Pages that only the first dump has.
    pub only_first: FrameRuns,
    /// Pages that only the second dump has.
    pub only_second: FrameRuns,
    /// Pages that both dumps should have, but that at least one cannot return: they were lost
    /// when the dump was written, or their data is damaged.
    pub unreadable: FrameRuns,
    /// The page frame after the highest one of RAM, of each dump. Dumps with different ends may
    /// still hold the same pages.
    pub ends: (PageFrame, PageFrame),
}

impl Comparison {
    /// Returns true if both dumps hold the same page frames.
    pub fn same_frames(&self) -> bool {
        self.only_first.count() == 0 && self.only_second.count() == 0
    }

    /// Returns true if no page that both dumps have differs.
    pub fn same_bytes(&self) -> bool {
        self.different.count() == 0 && self.unreadable.count() == 0
    }

    /// Returns true if both dumps hold the same page frames with the same bytes.
    pub fn is_equal(&self) -> bool {
        self.same_frames() && self.same_bytes()
    }

    fn merge(&mut self, other: Self) {
        self.equal += other.equal;
        self.different.merge(other.different);
        self.only_first.merge(other.only_first);
        self.only_second.merge(other.only_second);
        self.unreadable.merge(other.unreadable);
    }
}

/// Compares all pages of two dumps of the same machine. Differences are counted; an error means
/// that the dumps cannot be compared.
pub fn compare(
    first: &dyn MemorySource,
    second: &dyn MemorySource,
    helpers: usize,
    progress: &Progress,
    stop: &Stop,
) -> Result<Comparison, DumpError> {
    if first.page_shift() != second.page_shift() {
        return Err(DumpError::Layout(format!(
            "pages of {} and of {} bytes differ in size; only dumps with the same page size can be compared",
            1_u64 << first.page_shift(),
            1_u64 << second.page_shift()
        )));
    }
    let sections: BTreeSet<PageFrame> = first.sections().chain(second.sections()).collect();
    let sections: Vec<PageFrame> = sections.into_iter().collect();
    progress.begin(Phase::Copying, sections.len() as u64 * SECTION_FRAMES);
    let cursor = WorkCursor::new(sections.len() as u64);
    let found = run(helpers, stop, |_| -> Result<_, DumpError> {
        let mut pair = [Side::new(first), Side::new(second)];
        let mut found = Comparison::default();
        while let Some(index) = cursor.take(stop) {
            compare_section(&mut pair, sections[index as usize], &mut found)?;
            progress.add(SECTION_FRAMES);
        }
        Ok(found)
    })?;
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    let mut all = Comparison {
        ends: (first.end_frame(), second.end_frame()),
        ..Comparison::default()
    };
    found.into_iter().for_each(|found| all.merge(found));
    Ok(all)
}

/// One of the two dumps, as read by one helper.
struct Side<'a> {
    source: &'a dyn MemorySource,
    reader: Box<dyn PageReader + 'a>,
    present: Bitmap,
}

impl<'a> Side<'a> {
    fn new(source: &'a dyn MemorySource) -> Self {
        Self {
            source,
            reader: source.reader(IoMethod::Auto),
            present: Bitmap::new(SECTION_FRAMES as usize),
        }
    }

    fn load(&mut self, section: PageFrame) -> Result<(), SourceError> {
        self.present.clear();
        if section < self.source.end_frame() {
            self.source.present(section, &mut self.present)?;
        }
        Ok(())
    }
}

fn compare_section(
    pair: &mut [Side; 2],
    section: PageFrame,
    found: &mut Comparison,
) -> Result<(), DumpError> {
    let page_size = 1_usize << pair[0].source.page_shift();
    for side in &mut *pair {
        side.load(section)?;
    }
    let [one, other] = pair;
    let mut both = one.present.clone();
    both.and(&other.present);
    add_alone(&one.present, &both, section, &mut found.only_first);
    add_alone(&other.present, &both, section, &mut found.only_second);
    let mut from = 0;
    while let Some((start, len)) = both.next_run(from, both.len(), PAGES_AT_ONCE) {
        let frame = PageFrame(section.0 + start as u64);
        let pages = match (one.reader.pages(frame, len), other.reader.pages(frame, len)) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) | (_, Err(error)) if error.is_one_page() => {
                found.unreadable.add(one_frame(frame));
                from = start + 1;
                continue;
            }
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        // Either reader may return fewer pages than requested.
        let count = pages.0.len().min(pages.1.len()) / page_size;
        let bytes = count * page_size;
        from = start + count;
        if are_equal(&pages.0[..bytes], &pages.1[..bytes]) {
            found.equal += count as u64;
            continue;
        }
        let page_pairs = pages.0.chunks_exact(page_size);
        for (index, (one, other)) in page_pairs
            .zip(pages.1.chunks_exact(page_size))
            .take(count)
            .enumerate()
        {
            if are_equal(one, other) {
                found.equal += 1;
            } else {
                found
                    .different
                    .add(one_frame(PageFrame(frame.0 + index as u64)));
            }
        }
    }
    Ok(())
}

fn one_frame(first: PageFrame) -> FrameRun {
    FrameRun { first, count: 1 }
}

/// Adds the bits of `present` that are not in `both`.
fn add_alone(present: &Bitmap, both: &Bitmap, section: PageFrame, alone: &mut FrameRuns) {
    if present.count() == both.count() {
        return;
    }
    let mut from = 0;
    while let Some((start, len)) = present.next_run(from, present.len(), present.len()) {
        from = start + len;
        let bits = (start..from).filter(|bit| !both.get(*bit));
        bits.for_each(|bit| alone.add(one_frame(PageFrame(section.0 + bit as u64))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bigiron_format::bytes::Endian;
    use bigiron_format::elf::Notes;
    use bigiron_kernel::NotedText;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    const PAGE: usize = 4096;
    /// A page frame of the second section.
    const FAR: u64 = SECTION_FRAMES + 5;

    /// Pages in memory; an empty page is lost.
    #[derive(Clone)]
    struct Pages {
        end: u64,
        pages: BTreeMap<u64, Vec<u8>>,
    }

    /// Frames 3 to 202, and one in the second section, each with distinct bytes.
    fn pages() -> Pages {
        let page = |frame: u64| (frame, frame.to_le_bytes().repeat(PAGE / 8));
        Pages {
            end: FAR + 1,
            pages: (3..203).chain([FAR]).map(page).collect(),
        }
    }

    impl MemorySource for Pages {
        fn kind(&self) -> &'static str {
            "pages in memory"
        }
        fn page_shift(&self) -> u32 {
            PAGE.trailing_zeros()
        }
        fn endian(&self) -> Endian {
            Endian::Little
        }
        fn machine(&self) -> &str {
            "x86_64"
        }
        fn end_frame(&self) -> PageFrame {
            PageFrame(self.end)
        }
        fn notes(&self) -> Notes<'_> {
            Notes::new(&[], Endian::Little, 0)
        }
        fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
            None
        }
        fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
            self.present(first, bits)
        }
        fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
            assert!(first.0 < self.end, "asked for a section behind the end");
            bits.clear();
            let section = self.pages.range(first.0..first.0 + SECTION_FRAMES);
            section.for_each(|(frame, _)| bits.set((frame - first.0) as usize));
            Ok(())
        }
        fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
            let start = first.0 / SECTION_FRAMES * SECTION_FRAMES;
            (start < self.end).then_some(PageFrame(start))
        }
        fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
            Box::new(Reader(self, Vec::new()))
        }
    }

    struct Reader<'a>(&'a Pages, Vec<u8>);

    impl PageReader for Reader<'_> {
        fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
            self.1.clear();
            // Like a real source, the reader may return fewer pages than it could.
            for frame in first.0..first.0 + count.min(7) as u64 {
                match self.0.pages.get(&frame) {
                    Some(page) if !page.is_empty() => self.1.extend(page),
                    _ if frame > first.0 => break,
                    _ => {
                        let (path, frame) = (PathBuf::from("memory"), first);
                        return Err(SourceError::Lost { path, frame });
                    }
                }
            }
            Ok(&self.1)
        }
    }

    fn compared(one: &Pages, other: &Pages) -> Comparison {
        compare(one, other, 2, &Progress::new(), &Stop::new()).unwrap()
    }

    fn at(frames: &[u64]) -> FrameRuns {
        let mut all = FrameRuns::default();
        frames
            .iter()
            .for_each(|frame| all.add(one_frame(PageFrame(*frame))));
        all
    }

    fn one_at(frame: u64) -> FrameRuns {
        at(&[frame])
    }

    #[test]
    fn dump_equals_itself() {
        let found = compared(&pages(), &pages());
        assert!(found.is_equal());
        assert_eq!(found.equal, 201);
    }

    #[test]
    fn differing_bytes_are_reported_by_page_frame() {
        let mut other = pages();
        for (frame, at) in [(90, 0), (40, PAGE - 1), (FAR, 77)] {
            other.pages.get_mut(&frame).unwrap()[at] ^= 0x80;
        }
        let found = compared(&pages(), &other);
        assert_eq!(found.different, at(&[40, 90, FAR]));
        assert_eq!(found.equal, 198);
        assert!(found.same_frames() && !found.same_bytes() && !found.is_equal());
    }

    #[test]
    fn page_frames_of_one_dump_only_are_counted() {
        let (mut one, mut other) = (pages(), pages());
        one.pages.remove(&50);
        other.pages.remove(&60);
        let found = compared(&one, &other);
        assert_eq!(
            (&found.only_first, &found.only_second),
            (&one_at(60), &one_at(50))
        );
        assert!(!found.same_frames() && found.same_bytes() && !found.is_equal());
    }

    #[test]
    fn different_end_is_equal_but_missing_pages_are_not() {
        let mut longer = pages();
        longer.end = 3 * SECTION_FRAMES;
        let found = compared(&pages(), &longer);
        assert!(found.is_equal());
        assert_eq!(
            found.ends,
            (PageFrame(FAR + 1), PageFrame(3 * SECTION_FRAMES))
        );

        let mut shorter = pages();
        shorter.pages.remove(&FAR);
        shorter.end = 203;
        assert_eq!(compared(&shorter, &pages()).only_second, one_at(FAR));
        assert_eq!(compared(&pages(), &shorter).only_first, one_at(FAR));
    }

    #[test]
    fn lost_pages_are_counted_and_their_neighbours_compared() {
        let mut other = pages();
        other.pages.insert(70, Vec::new());
        let found = compared(&pages(), &other);
        assert_eq!((&found.unreadable, found.equal), (&one_at(70), 200));
        assert!(!found.is_equal());
    }
}
