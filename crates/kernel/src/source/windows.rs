//! Mapped windows of a file that its readers share.
//!
//! On /proc/vmcore a window costs one page table entry for each page when it is mapped
//! (remap_pfn_range in mmap_vmcore, fs/proc/vmcore.c), and when it is unmapped an interrupt of each
//! CPU that runs a thread of this process, which must flush its TLB (flush_tlb_mm_range,
//! arch/x86/mm/tlb.c). Helpers take neighbouring batches of pages in turns: windows of their own
//! would each map all memory. They share one window, which is unmapped when the last helper has
//! left it, and which is large where much of it is read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::mapping::Mapping;

/// Size of a window, as in makedumpfile for /proc/vmcore.
pub(super) const WINDOW: u64 = 4 << 20;
/// Maximum size of a window of memory that exists anyway (/proc/vmcore): its page tables take
/// 1/512 of it.
pub(super) const LARGEST_WINDOW: u64 = 64 << 20;
/// Size of a window where nothing near was read before: it may serve a single page, such as a
/// page table, and each page of a mapping costs time.
const FIRST_WINDOW: u64 = 64 << 10;
/// Mappings are aligned to the largest page size of any host.
const MAP_ALIGNMENT: u64 = 64 << 10;
/// Bytes behind its end that a window also maps, for a read that goes beyond the end.
const OVERLAP: u64 = 256 << 10;
/// A window of which at least one in this number of bytes was read is followed by a larger one.
/// Helpers that are behind the one that leaves a window have not read all of their batches in it.
const DENSE_PART: u64 = 4;

/// A mapped window.
#[derive(Debug)]
pub(super) struct Window {
    start: u64,
    mapping: Mapping,
    /// Bytes read of it.
    used: AtomicU64,
}

impl Window {
    /// Notes that a reader takes `len` bytes at `offset`, which the window holds. Returns where
    /// they begin in [`Window::bytes`].
    pub(super) fn take(&self, offset: u64, len: usize) -> usize {
        self.used.fetch_add(len as u64, Ordering::Relaxed);
        (offset - self.start) as usize
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.mapping.bytes()
    }

    /// What is remembered of a window that a reader leaves.
    pub(super) fn left(&self) -> LeftWindow {
        LeftWindow {
            range: self.range(),
            used: self.used.load(Ordering::Relaxed),
        }
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + self.mapping.bytes().len() as u64
    }

    pub(super) fn holds(&self, request: &Range<u64>) -> bool {
        let range = self.range();
        range.start <= request.start && request.end <= range.end
    }
}

/// A window that a reader has left.
#[derive(Clone, Debug)]
pub(super) struct LeftWindow {
    range: Range<u64>,
    /// Bytes that all readers together have read of it.
    used: u64,
}

impl LeftWindow {
    fn is_near(&self, offset: u64) -> bool {
        (self.range.start..self.range.end + WINDOW).contains(&offset)
    }

    fn is_dense(&self) -> bool {
        self.used >= (self.range.end - self.range.start) / DENSE_PART
    }
}

/// Returns the bytes to map for a request of a reader that has left `left`, or `None` if `segment`
/// does not hold the request.
///
/// Where much of the memory is read, windows begin and end at multiples of their size, so that a
/// reader that is a little behind the others finds its bytes in the same window.
///
/// A window stays within the pages of one segment. The kernel maps each segment of /proc/vmcore by
/// a call of remap_pfn_range (mmap_vmcore in fs/proc/vmcore.c). Where a call covers only a part of
/// the mapping, x86 takes the memory type from other mappings (track_pfn_remap in
/// arch/x86/mm/pat/memtype.c of 6.1): pages that nobody else has mapped become uncached, and the
/// call fails with EINVAL if others have mapped only some of them.
fn place(
    request: &Range<u64>,
    left: Option<&LeftWindow>,
    largest: u64,
    segment: &Range<u64>,
) -> Option<Range<u64>> {
    if request.start < segment.start || request.end > segment.end {
        return None;
    }
    let start = request.start / MAP_ALIGNMENT * MAP_ALIGNMENT;
    let near = left.filter(|left| left.is_near(request.start));
    let wanted = match near {
        None => start..start + FIRST_WINDOW,
        Some(left) if !left.is_dense() => start..start + WINDOW,
        Some(left) => {
            let start = request.start / WINDOW * WINDOW;
            // The largest power of two that divides it; all do if it is 0.
            let alignment = 1 << start.trailing_zeros().min(largest.ilog2());
            let before = left.range.end - left.range.start;
            let grown = 2 << before.max(1).ilog2();
            let len = grown.min(alignment).clamp(WINDOW, largest);
            let overlap = OVERLAP.max(request.end - request.start);
            start..start + len + overlap
        }
    };
    let page = rustix::param::page_size() as u64;
    let start = wanted.start.max(segment.start / page * page);
    let end = wanted.end.max(request.end).min(segment.end);
    Some(start..end)
}

/// The windows of a file.
#[derive(Debug)]
pub(super) struct Windows {
    /// Those that readers hold; others may be among them.
    held: Mutex<Vec<Weak<Window>>>,
    /// Maximum size of a window.
    largest: u64,
}

impl Windows {
    /// `largest` is a power of two, [`WINDOW`] or more.
    pub(super) fn new(largest: u64) -> Self {
        Self {
            held: Mutex::new(Vec::new()),
            largest,
        }
    }

    /// Returns a window that holds `request`: one that another reader holds, or a new one within
    /// `segment`, a part of the file.
    ///
    /// # Errors
    /// The file is too short, or cannot be mapped.
    pub(super) fn get(
        &self,
        file: &File,
        segment: &Range<u64>,
        request: &Range<u64>,
        left: Option<&LeftWindow>,
    ) -> io::Result<Arc<Window>> {
        // Held while a window is mapped: other readers that need it wait for it.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut windows = held.iter().filter_map(Weak::upgrade);
        if let Some(window) = windows.find(|window| window.holds(request)) {
            return Ok(window);
        }
        let range =
            place(request, left, self.largest, segment).ok_or(io::ErrorKind::UnexpectedEof)?;
        // Access to a mapped page behind the end of a file that has shrunk would kill the process.
        // A file that shrinks from now on can still do that: see `bus_error` of the program.
        let now = file.metadata()?;
        if now.is_file() && now.len() < range.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let window = Arc::new(Window {
            start: range.start,
            mapping: Mapping::new(file, range.start, (range.end - range.start) as usize)?,
            used: AtomicU64::new(0),
        });
        held.retain(|other| other.strong_count() > 0);
        held.push(Arc::downgrade(&window));
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::io::Write as _;

    use super::*;

    const PAGE: u64 = 4096;
    const ALL: Range<u64> = 0..1 << 40;

    fn left(range: Range<u64>, used: u64) -> LeftWindow {
        LeftWindow { range, used }
    }

    fn page_at(offset: u64) -> Range<u64> {
        offset..offset + PAGE
    }

    #[test]
    fn page_without_neighbours_has_a_small_window() {
        let request = page_at(1 << 30);
        let far = left(0..WINDOW, WINDOW);
        for left in [None, Some(&far)] {
            let range = place(&request, left, LARGEST_WINDOW, &ALL).unwrap();
            assert_eq!(range, 1 << 30..(1 << 30) + FIRST_WINDOW);
        }
    }

    #[test]
    fn dense_reading_doubles_windows_up_to_the_largest() {
        let mut range = 0..FIRST_WINDOW;
        let mut lengths = Vec::new();
        while range.end < 512 << 20 {
            let request = page_at(range.end);
            let all = left(range.clone(), range.end - range.start);
            range = place(&request, Some(&all), LARGEST_WINDOW, &ALL).unwrap();
            assert_eq!((range.end - OVERLAP) % WINDOW, 0);
            lengths.push((range.end - range.start - OVERLAP) >> 20);
        }
        assert_eq!(lengths[..6], [4, 4, 8, 16, 32, 64]);
        assert!(lengths[6..].iter().all(|len| *len == 64), "{lengths:?}");
    }

    #[test]
    fn sparse_reading_keeps_windows_small() {
        let sparse = left(0..LARGEST_WINDOW, LARGEST_WINDOW / DENSE_PART - 1);
        let request = page_at(LARGEST_WINDOW + 3 * PAGE);
        let range = place(&request, Some(&sparse), LARGEST_WINDOW, &ALL).unwrap();
        assert_eq!(range, LARGEST_WINDOW..LARGEST_WINDOW + WINDOW);
    }

    #[test]
    fn windows_of_ordinary_files_do_not_grow() {
        let all = left(0..WINDOW, WINDOW);
        let range = place(&page_at(WINDOW), Some(&all), WINDOW, &ALL).unwrap();
        assert_eq!(range, WINDOW..2 * WINDOW + OVERLAP);
    }

    #[test]
    fn windows_stay_within_the_pages_of_a_segment() {
        // The largest page size of a machine that maps the file.
        const HOST_PAGE: u64 = 64 << 10;
        let segment = WINDOW + 5 * HOST_PAGE + 100..WINDOW + 50 * HOST_PAGE + 100;
        let dense = left(0..WINDOW + 5 * HOST_PAGE, WINDOW);
        let page = segment.start..segment.start + PAGE;
        let place = |request, left| place(request, left, LARGEST_WINDOW, &segment);
        for left in [None, Some(&dense)] {
            let range = place(&page, left).unwrap();
            assert_eq!(range.start, segment.start - 100);
            assert!(
                page.end <= range.end && range.end <= segment.end,
                "{range:?}"
            );
        }
        let last = segment.end - PAGE..segment.end;
        let range = place(&last, Some(&dense)).unwrap();
        assert!(range.start <= last.start);
        assert_eq!(range.end, segment.end);
        let outside = [page_at(segment.start - PAGE), page_at(segment.end - 1)];
        for request in &outside {
            assert_eq!(place(request, Some(&dense)), None);
        }
    }

    #[test]
    fn window_ends_with_the_segment_and_holds_every_request() {
        let all = left(0..WINDOW, WINDOW);
        let size = WINDOW + 3 * PAGE;
        let range = place(&page_at(WINDOW), Some(&all), LARGEST_WINDOW, &(0..size)).unwrap();
        assert_eq!(range, WINDOW..size);
        let behind = place(&page_at(size), Some(&all), LARGEST_WINDOW, &(0..size));
        assert_eq!(behind, None);
        for left in [None, Some(&all)] {
            let long = 5 * PAGE..5 * PAGE + 3 * WINDOW;
            let range = place(&long, left, WINDOW, &ALL).unwrap();
            assert!(range.start <= long.start && long.end <= range.end);
        }
    }

    #[test]
    fn readers_share_a_window_that_the_last_one_unmaps() {
        let mut temporary = tempfile::NamedTempFile::new().unwrap();
        let contents: Vec<u8> = (0..WINDOW).map(|byte| (byte >> 12) as u8).collect();
        temporary.write_all(&contents).unwrap();
        let (file, windows) = (temporary.as_file(), Windows::new(WINDOW));
        let dense = left(0..FIRST_WINDOW, FIRST_WINDOW);
        let get = |request| {
            windows
                .get(file, &(0..WINDOW), &request, Some(&dense))
                .unwrap()
        };
        // The second reader is behind the first.
        let (one, other) = (get(page_at(30 * PAGE)), get(page_at(20 * PAGE)));
        assert!(Arc::ptr_eq(&one, &other));
        drop(one);
        let start = other.take(20 * PAGE, 4096);
        assert_eq!(other.bytes()[start..start + 4096], [20; 4096]);
        assert!(!other.holds(&page_at(WINDOW)));
        assert_eq!(other.left().used, PAGE);
        let unmapped = Arc::downgrade(&other);
        drop(other);
        assert_eq!(unmapped.strong_count(), 0);
        let third = get(page_at(30 * PAGE));
        assert_eq!(third.left().used, 0);
        assert_eq!(windows.held.lock().unwrap().len(), 1);
    }
}
