//! Iterates over chunks in core order, from one file or from all files of a striped dump.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::chunk::{Chunk, ChunkKind};
use super::extent::Gap;
use super::file::VmdumpFile;
use crate::error::FormatError;

/// The next range of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// A chunk, and the index of the file that has it.
    Chunk(usize, Chunk),
    /// A range that no file has.
    Gap(Gap),
}

/// Iterates over the core from its start. One index record per file is kept in memory.
pub struct CoreOrder<'a> {
    files: Vec<Cursor<'a>>,
    /// All files of a striped dump have the headers; this one is used.
    headers_from: usize,
    covered: u64,
    /// The chunk after a gap.
    next: Option<(usize, Chunk)>,
    damage: Option<(usize, FormatError)>,
    overlap: Option<(usize, Chunk)>,
}

impl<'a> CoreOrder<'a> {
    /// Starts at the beginning of the core in `files`.
    pub fn new(files: impl IntoIterator<Item = &'a VmdumpFile>, headers_from: usize) -> Self {
        let files = files.into_iter().map(|file| Cursor {
            file,
            next_group: 0,
            chunks: Vec::new().into_iter().peekable(),
        });
        Self {
            files: files.collect(),
            headers_from,
            covered: 0,
            next: None,
            damage: None,
            overlap: None,
        }
    }

    /// End position of the core seen so far.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// The first index record that could not be read, and its file.
    pub fn damage(&self) -> Option<&(usize, FormatError)> {
        self.damage.as_ref()
    }

    /// The first chunk that overlaps another one, and its file.
    pub fn overlap(&self) -> Option<&(usize, Chunk)> {
        self.overlap.as_ref()
    }

    /// The file with the lowest next chunk.
    fn first(&mut self) -> Option<usize> {
        let damage = &mut self.damage;
        let positions = self.files.iter_mut().enumerate();
        let positions = positions.filter_map(|(number, file)| {
            let position = file.position(|error| {
                damage.get_or_insert((number, error));
            });
            Some((position?, number))
        });
        positions.min().map(|(_, number)| number)
    }
}

impl Iterator for CoreOrder<'_> {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        if let Some((file, chunk)) = self.next.take() {
            return Some(Stretch::Chunk(file, chunk));
        }
        loop {
            let number = self.first()?;
            let chunk = self.files[number].chunks.next()?;
            if chunk.kind == ChunkKind::Headers && number != self.headers_from {
                continue;
            }
            if chunk.position < self.covered {
                self.overlap.get_or_insert((number, chunk));
                continue;
            }
            let gap = Gap {
                start: self.covered,
                end: chunk.position,
            };
            self.covered = chunk.end();
            if gap.start == gap.end {
                return Some(Stretch::Chunk(number, chunk));
            }
            self.next = Some((number, chunk));
            return Some(Stretch::Gap(gap));
        }
    }
}

/// A position in the index of one file.
struct Cursor<'a> {
    file: &'a VmdumpFile,
    next_group: usize,
    chunks: Peekable<IntoIter<Chunk>>,
}

impl Cursor<'_> {
    /// Position of the next chunk in the core.
    fn position(&mut self, mut damaged: impl FnMut(FormatError)) -> Option<u64> {
        while self.chunks.peek().is_none() && self.next_group < self.file.chunk_groups() {
            match self.file.chunks(self.next_group) {
                Ok(chunks) => self.chunks = chunks.into_iter().peekable(),
                Err(error) => damaged(error),
            }
            self.next_group += 1;
        }
        self.chunks.peek().map(|chunk| chunk.position)
    }
}
