//! The frames of a paravirtual Xen guest. Its page tables have the machine's frames, while all
//! else has the guest's own. A dump of such a guest has a note that says which is which.

use super::note::{self, Notes};
use crate::bytes::Endian;
use crate::error::FormatError;

/// Name and type of the note: 8-byte words, three for each run.
const NOTE: (&[u8], u32) = note::own(3);
const ENTRY: usize = 24;
/// The frames of every machine are below.
const FRAME_LIMIT: u64 = 1 << 44;

/// Consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// First frame of the guest.
    pub frame: u64,
    /// The machine's frame.
    pub machine: u64,
    /// Number of frames.
    pub count: u64,
}

impl FrameRun {
    /// Returns true if this is the pair behind the run.
    pub fn goes_on_with(&self, frame: u64, machine: u64) -> bool {
        self.frame.checked_add(self.count) == Some(frame)
            && self.machine.checked_add(self.count) == Some(machine)
    }
}

/// The guest's frames by those of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFrames {
    /// By the machine's frame.
    runs: Vec<FrameRun>,
}

impl MachineFrames {
    /// Creates it of runs in any order.
    pub fn new(mut runs: Vec<FrameRun>) -> Self {
        runs.sort_by_key(|run| run.machine);
        Self { runs }
    }

    /// Reads the note; `None` if there is none.
    pub fn find(notes: Notes<'_>) -> Result<Option<Self>, FormatError> {
        let (endian, at) = (notes.endian(), notes.file_offset());
        let mut notes = notes.intact();
        let Some(note) = notes.find(|note| (note.name, note.n_type) == NOTE) else {
            return Ok(None);
        };
        let mut runs = Vec::with_capacity(note.desc.len() / ENTRY);
        for (index, entry) in note.desc.chunks_exact(ENTRY).enumerate() {
            let word = |word: usize| endian.u64(entry, 8 * word).unwrap_or(u64::MAX);
            let run = FrameRun {
                frame: word(0),
                machine: word(1),
                count: word(2),
            };
            if [run.frame, run.machine, run.count]
                .iter()
                .any(|number| *number >= FRAME_LIMIT)
            {
                return Err(FormatError::unexpected(
                    "the note with the frames of the machine",
                    at.saturating_add((note.desc_offset + index * ENTRY) as u64),
                    format!("frames below {FRAME_LIMIT:#x}"),
                    format!("{run:x?}"),
                ));
            }
            runs.push(run);
        }
        Ok(Some(Self::new(runs)))
    }

    /// Returns the note.
    pub fn note(&self) -> Vec<u8> {
        let words = self
            .runs
            .iter()
            .flat_map(|run| [run.frame, run.machine, run.count]);
        let desc: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        note::encode(NOTE.0, NOTE.1, &desc, Endian::Little)
    }

    /// Returns the guest's frame of one of the machine; `None` if the guest has none there.
    pub fn frame(&self, machine: u64) -> Option<u64> {
        let behind = self.runs.partition_point(|run| run.machine <= machine);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        let inside = machine - run.machine;
        (inside < run.count).then(|| run.frame + inside)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn run(frame: u64, machine: u64, count: u64) -> FrameRun {
        FrameRun {
            frame,
            machine,
            count,
        }
    }

    #[test]
    fn frames_are_those_of_the_note() {
        let frames = MachineFrames::new(vec![run(0, 500, 10), run(10, 100, 5)]);
        let note = frames.note();
        let read = MachineFrames::find(Notes::new(&note, Endian::Little, 0));
        assert_eq!(read.unwrap().unwrap(), frames);
        let found = [499, 500, 509, 510, 104, 105].map(|machine| frames.frame(machine));
        assert_eq!(found, [None, Some(0), Some(9), None, Some(14), None]);
    }

    #[test]
    fn impossible_frames_are_an_error() {
        let note = MachineFrames::new(vec![run(0, 1 << 60, 1)]).note();
        let error = MachineFrames::find(Notes::new(&note, Endian::Little, 0x100));
        assert!(error.unwrap_err().to_string().contains("0x114"));
    }
}
