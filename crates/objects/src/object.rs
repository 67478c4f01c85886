//! An object as a file that is read at random.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bigiron_format::ReadAt;
use bigiron_format::memory_limit::Share;
use quick_cache::sync::Cache;

use crate::store::MAX_RANGE;

/// Unit of requests and of the cache. A page that a dump keeps compressed takes about 1 KiB, and
/// its neighbours are rarely wanted: larger blocks fetch more bytes, smaller ones ask more often.
const BLOCK: u64 = 64 << 10;
/// Maximum memory for blocks of an object, in bytes.
pub const CACHE: u64 = 64 << 20;
/// Maximum number of bytes that are fetched ahead of a reader that reads on.
const MAX_AHEAD: u64 = 4 << 20;
/// Number of readers that are recognised as reading on.
const RUNS: usize = 16;

/// Fetches bytes of an object.
pub trait Fetch: Send + Sync {
    /// Returns all bytes of `range`, which is within the object and has at most 16 MiB.
    fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>>;
}

/// An object, with a cache of its blocks. Several threads may read it.
///
/// A block is fetched once at a time, whoever wants it. A reader that reads on has blocks fetched
/// ahead, twice as many each time.
///
/// After a failure nothing is read any more. A parser looks for signatures in several places, and
/// takes what cannot be read for something else; with a part of the object it would tell wrong
/// things of a dump that is sound.
pub struct CachedObject<F> {
    source: F,
    size: u64,
    blocks: Cache<u64, Arc<[u8]>>,
    state: Mutex<State>,
    arrived: Condvar,
    /// Readers may take as much memory as the object has bytes, and the cache.
    _memory: Share,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks that are being fetched.
    pending: Vec<Range<u64>>,
    /// What was fetched last, by readers, the latest one last.
    runs: Vec<Range<u64>>,
    /// The first failure.
    failure: Option<String>,
}

impl<F: Fetch> CachedObject<F> {
    /// An object of `size` bytes, of which the first are `front`.
    pub fn new(source: F, size: u64, front: &[u8]) -> Self {
        let object = Self {
            source,
            size,
            blocks: Cache::new((CACHE / BLOCK) as usize),
            state: Mutex::default(),
            arrived: Condvar::new(),
            _memory: Share::new(size.saturating_add(CACHE)),
        };
        let whole = match front.len() as u64 == size {
            true => front.len(),
            false => front.len() - front.len() % BLOCK as usize,
        };
        object.keep(0, front.get(..whole).unwrap_or_default());
        object
    }

    fn keep(&self, first: u64, bytes: &[u8]) {
        for (number, block) in (first..).zip(bytes.chunks(BLOCK as usize)) {
            self.blocks.insert(number, block.into());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a block, of which those up to `end` are wanted, too.
    fn block(&self, number: u64, end: u64) -> io::Result<Arc<[u8]>> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(io::Error::other(failure.clone()));
            }
            if let Some(block) = self.blocks.get(&number) {
                return Ok(block);
            }
            if !state.pending.iter().any(|range| range.contains(&number)) {
                break;
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let range = self.plan(&mut state, number, end);
        state.pending.push(range.clone());
        drop(state);
        let bytes = range.start * BLOCK..(range.end * BLOCK).min(self.size);
        let len = bytes.end - bytes.start;
        let fetched = self.source.fetch(bytes);
        let found = match &fetched {
            Ok(bytes) if bytes.len() as u64 == len => {
                self.keep(range.start, bytes);
                let first = bytes.len().min(BLOCK as usize);
                Ok(bytes[..first].into())
            }
            Ok(_) => Err("fewer bytes came than were asked for".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let mut state = self.lock();
        state.pending.retain(|other| *other != range);
        match &found {
            Ok(_) => {
                state.runs.push(range);
                if state.runs.len() > RUNS {
                    state.runs.remove(0);
                }
            }
            Err(failure) => state.failure = Some(failure.clone()),
        }
        drop(state);
        self.arrived.notify_all();
        found.map_err(io::Error::other)
    }

    /// Chooses the blocks to fetch: from `number` to `end`, and more if a reader reads on there.
    fn plan(&self, state: &mut State, number: u64, end: u64) -> Range<u64> {
        // Several readers that share the work are behind what is still being fetched.
        let pending = state.pending.iter().find(|range| range.end == number);
        let run = pending.cloned().or_else(|| {
            let before = state.runs.iter().rposition(|run| run.end == number)?;
            Some(state.runs.remove(before))
        });
        let ahead = run.map_or(0, |run| (2 * (run.end - run.start)).min(MAX_AHEAD / BLOCK));
        let end = end.max(number + ahead.max(1));
        let end = end.min(number + MAX_RANGE / BLOCK);
        let end = end.min(self.size.div_ceil(BLOCK));
        // Neither what is there nor what is coming is fetched again.
        let is_new = |block: &u64| {
            !self.blocks.contains_key(block)
                && !state.pending.iter().any(|range| range.contains(block))
        };
        let stop = (number + 1..end).find(|block| !is_new(block));
        number..stop.unwrap_or(end)
    }
}

impl<F: Fetch> ReadAt for CachedObject<F> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset >= self.size || buf.is_empty() {
            return Ok(0);
        }
        let len = (self.size - offset).min(buf.len() as u64);
        let end = (offset + len).div_ceil(BLOCK);
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let block = self.block(at / BLOCK, end)?;
            let from = (at % BLOCK) as usize;
            let bytes = block.get(from..).unwrap_or_default();
            let count = bytes.len().min((len - done) as usize);
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf[done as usize..done as usize + count].copy_from_slice(&bytes[..count]);
            done += count as u64;
        }
        Ok(len as usize)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Bytes that can be told apart, and a list of what was fetched.
    struct Bytes {
        contents: Vec<u8>,
        fetched: Mutex<Vec<Range<u64>>>,
        fails: AtomicBool,
    }

    impl Fetch for &Bytes {
        fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
            self.fetched.lock().unwrap().push(range.clone());
            if self.fails.load(Ordering::Relaxed) {
                return Err(io::Error::other("the server is away"));
            }
            Ok(self.contents[range.start as usize..range.end as usize].to_vec())
        }
    }

    fn bytes(size: u64) -> Bytes {
        Bytes {
            contents: (0..size)
                .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
                .collect(),
            fetched: Mutex::default(),
            fails: AtomicBool::new(false),
        }
    }

    fn read(object: &CachedObject<&Bytes>, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        object.read_exact_at("bytes", offset, &mut buf).unwrap();
        buf
    }

    #[test]
    fn reads_are_those_of_a_file_at_any_offset() {
        let bytes = bytes(5 * BLOCK + 123);
        let object = CachedObject::new(&bytes, 5 * BLOCK + 123, &bytes.contents[..BLOCK as usize]);
        for (offset, len) in [
            (0, 10),
            (BLOCK - 5, 10),
            (3, 3 * BLOCK),
            (5 * BLOCK + 100, 23),
        ] {
            let expected = &bytes.contents[offset as usize..(offset + len) as usize];
            assert_eq!(read(&object, offset, len as usize), expected);
        }
        let mut buf = [0; 10];
        assert_eq!(object.read_at(object.size() - 3, &mut buf).unwrap(), 3);
        assert_eq!(object.read_at(object.size(), &mut buf).unwrap(), 0);
        let mut seen = bytes.fetched.lock().unwrap().clone();
        seen.sort_by_key(|range| range.start);
        let is_disjoint = seen.windows(2).all(|pair| pair[0].end <= pair[1].start);
        assert!(is_disjoint && seen[0].start == BLOCK, "{seen:?}");
    }

    #[test]
    fn scattered_reads_fetch_a_block_each() {
        let bytes = bytes(64 * BLOCK);
        let object = CachedObject::new(&bytes, 64 * BLOCK, &[]);
        for block in [40, 3, 17, 40, 3] {
            read(&object, block * BLOCK + 100, 1000);
        }
        let fetched = bytes.fetched.lock().unwrap();
        let lengths: Vec<u64> = fetched
            .iter()
            .map(|range| range.end - range.start)
            .collect();
        assert_eq!(lengths, [BLOCK; 3]);
    }

    #[test]
    fn reader_that_reads_on_is_served_by_ever_larger_requests() {
        let bytes = bytes(256 * BLOCK);
        let object = CachedObject::new(&bytes, 256 * BLOCK, &[]);
        for block in 0..256 {
            read(&object, block * BLOCK, BLOCK as usize);
        }
        let fetched = bytes.fetched.lock().unwrap();
        let lengths: Vec<u64> = fetched
            .iter()
            .map(|range| (range.end - range.start) / BLOCK)
            .collect();
        assert_eq!(lengths[..8], [1, 2, 4, 8, 16, 32, 64, 64]);
    }

    #[test]
    fn failure_is_told_by_all_further_reads() {
        let bytes = bytes(3 * BLOCK);
        let object = CachedObject::new(&bytes, 3 * BLOCK, &[]);
        read(&object, 0, 8);
        bytes.fails.store(true, Ordering::Relaxed);
        let error = object.read_at(2 * BLOCK, &mut [0; 8]).unwrap_err();
        assert!(error.to_string().contains("away"));
        bytes.fails.store(false, Ordering::Relaxed);
        for offset in [0, BLOCK] {
            let error = object.read_at(offset, &mut [0; 8]).unwrap_err();
            assert!(error.to_string().contains("away"));
        }
    }

    #[test]
    fn threads_do_not_fetch_a_block_twice() {
        let bytes = bytes(100 * BLOCK);
        let object = CachedObject::new(&bytes, 100 * BLOCK, &[]);
        thread::scope(|scope| {
            for start in 0..4 {
                let object = &object;
                scope.spawn(move || {
                    for block in 0..100 {
                        read(object, (block + start * 25) % 100 * BLOCK, 500);
                    }
                });
            }
        });
        let fetched = bytes.fetched.lock().unwrap();
        let sum: u64 = fetched.iter().map(|range| range.end - range.start).sum();
        assert_eq!(sum, 100 * BLOCK);
    }
}
