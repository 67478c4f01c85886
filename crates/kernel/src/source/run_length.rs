//! How many pages to read at once from a file that may have bad sectors.

/// The length of reads: they shrink towards bytes that cannot be read, and grow behind them. So
/// one page that cannot be read takes a few failed reads, each of which takes a disk seconds, and
/// each further one next to it takes one.
#[derive(Debug)]
pub(super) struct RunLength {
    most: usize,
}

impl Default for RunLength {
    fn default() -> Self {
        Self { most: usize::MAX }
    }
}

impl RunLength {
    /// Calls `read` with a number of pages, at most `count`, and with fewer as long as it fails.
    /// Returns the number that was read, at least one, and the result of the call.
    ///
    /// A failed read says nothing about its first page. The number of bytes that a read returned
    /// before it failed does not help: read() of /proc/vmcore returns none of them (`read_vmcore`
    /// in fs/proc/vmcore.c), and that of a file ends at the start of a folio of the page cache, of
    /// which shorter reads may succeed (`filemap_update_page` in mm/filemap.c).
    ///
    /// # Errors
    /// That of reading the first page alone.
    pub(super) fn read<T, E>(
        &mut self,
        count: usize,
        mut read: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<(usize, T), E> {
        let mut len = count.min(self.most).max(1);
        loop {
            match read(len) {
                Ok(result) => {
                    self.most = self.most.max(len.saturating_mul(2));
                    return Ok((len, result));
                }
                Err(_) if len > 1 => len /= 2,
                Err(error) => {
                    self.most = 1;
                    return Err(error);
                }
            }
            self.most = len;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Reads pages 0 to `end` where those in `bad` cannot be read; returns the number of pages
    /// read and of failed reads.
    fn read_all(end: usize, bad: &Range<usize>) -> (usize, usize) {
        let (mut length, mut at, mut good, mut failed) = (RunLength::default(), 0, 0, 0);
        while at < end {
            let read = length.read((end - at).min(64), |len| {
                let hit = at < bad.end && bad.start < at + len;
                failed += usize::from(hit);
                if hit { Err(()) } else { Ok(()) }
            });
            match read {
                Ok((len, ())) => {
                    good += len;
                    at += len;
                }
                Err(()) => at += 1,
            }
        }
        (good, failed)
    }

    #[test]
    fn all_pages_around_a_bad_one_are_read_with_few_failed_reads() {
        for page in 0..256 {
            let (good, failed) = read_all(256, &(page..page + 1));
            assert_eq!(good, 255, "page {page}");
            assert!(failed <= 14, "page {page}: {failed} failed reads");
        }
    }

    #[test]
    fn each_further_bad_page_takes_one_failed_read() {
        for start in 0..256 {
            let (good, failed) = read_all(1024, &(start..start + 100));
            assert_eq!(good, 924, "from {start}");
            assert!(failed <= 14 + 99, "from {start}: {failed} failed reads");
        }
    }

    #[test]
    fn file_without_bad_sectors_is_read_as_requested() {
        let mut length = RunLength::default();
        for count in [64, 1, 64, usize::MAX] {
            assert_eq!(length.read(count, |_| Ok::<_, ()>(())), Ok((count, ())));
        }
    }
}
