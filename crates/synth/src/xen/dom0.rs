//! dom0's memory: the kernel that runs in it, its tables of frames, and its page tables, which
//! have frames of the machine.

use std::collections::HashMap;

use super::build::{Builder, GROUP, PAGE};
use super::spec::XenOwner;
use crate::error::SynthError;
use crate::machine::Machine;

/// Start of m2p: entry n is dom0's frame, or another domain's, at machine frame n.
const M2P: u64 = 0xffff_8000_0000_0000;
/// Entries of a page of a table.
const ENTRIES: usize = 512;
const FOREIGN: u64 = 1 << 63;
const IDENTITY: u64 = 1 << 62;
const NONE: u64 = u64::MAX;
/// The last version here whose types of pages have four bits.
const LAST_OLD_TYPES: (u64, u64) = (4, 4);

const PRESENT: u64 = 1;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const LARGE: u64 = 1 << 7;

impl Builder {
    /// Lays dom0's memory out, and writes its table of frames in three levels; returns the frame
    /// of the root. The tables are in the last of its pages, which they do not have themselves.
    pub(super) fn dom0(&mut self) -> Result<u64, SynthError> {
        if !self.spec.p2m {
            self.m2p(&[])?;
            return Ok(NONE);
        }
        let ram = self.spec.ram.iter().cloned().flatten();
        let spans = self.spec.spans();
        let is_dom0 = |frame: &u64| spans.owner(*frame) == Some(XenOwner::Domain(0));
        let own: Vec<u64> = ram.filter(is_dom0).collect();
        if own.is_empty() {
            self.m2p(&[])?;
            return Ok(NONE);
        }
        let frames: Vec<u64> = match &self.machine {
            Some(machine) => machine.ram().iter().cloned().flatten().collect(),
            // All but those of the tables.
            None => (0..(own.len() - own.len().min(own.len() / 256 + 3)) as u64).collect(),
        };
        let machine_frames = match self.machine {
            Some(_) => mixed(&own, frames.len()),
            None => own[..frames.len().min(own.len())].to_vec(),
        };
        if machine_frames.len() < frames.len() {
            return Err(too_small());
        }
        let pairs: Vec<(u64, u64)> = frames.into_iter().zip(machine_frames).collect();
        let used: std::collections::HashSet<u64> = pairs.iter().map(|pair| pair.1).collect();
        let mut spare = own.into_iter().filter(|frame| !used.contains(frame));
        let end = pairs.last().map_or(0, |pair| pair.0 + 1);
        let foreign = self.spec.ram.iter().cloned().flatten();
        let foreign = foreign
            .into_iter()
            .find(|frame| matches!(spans.owner(*frame), Some(XenOwner::Domain(id)) if id > 0));
        let mut table = vec![NONE; (end as usize + 1).next_multiple_of(ENTRIES)];
        for (frame, machine) in &pairs {
            table[*frame as usize] = *machine;
        }
        if let Some(hole) = table.get_mut(0xa0..0x100).filter(|_| end > 0x100) {
            let holes = hole
                .iter_mut()
                .zip(0xa0..)
                .filter(|(entry, _)| **entry == NONE);
            holes.for_each(|(entry, frame)| *entry = frame | IDENTITY);
        }
        table[end as usize] = foreign.map_or(NONE, |frame| frame | FOREIGN);
        let missing = spare.next().ok_or_else(too_small)?;
        self.fill(missing, &[]);
        let mut level = table;
        // The leaves, the lists of leaves, the root.
        for depth in 0..3 {
            let mut upper = Vec::new();
            for entries in level.chunks(ENTRIES) {
                if depth == 0 && entries.iter().all(|entry| *entry == NONE) {
                    upper.push(missing);
                    continue;
                }
                let page = spare.next().ok_or_else(too_small)?;
                self.fill(page, entries);
                upper.push(page);
            }
            level = upper;
        }
        if let Some(machine) = self.machine.take() {
            self.contents(&machine, &pairs)?;
            self.machine = Some(machine);
        }
        self.m2p(&pairs)?;
        self.dom0.pairs = pairs;
        Ok(level[0])
    }

    /// Fills a page with `entries`, and the rest with what stands for none.
    fn fill(&mut self, frame: u64, entries: &[u64]) {
        for slot in 0..ENTRIES {
            let entry = entries.get(slot).copied().unwrap_or(NONE);
            self.memory.put64(frame * PAGE + 8 * slot as u64, entry);
        }
    }

    /// Writes the kernel's pages; its page tables have frames of the machine.
    fn contents(&mut self, kernel: &Machine, pairs: &[(u64, u64)]) -> Result<(), SynthError> {
        let of: HashMap<u64, u64> = pairs.iter().copied().collect();
        let mut pages: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut tables = vec![(kernel.top_table() >> 12, 4_u64)];
        while let Some((frame, level)) = tables.pop() {
            if pages.contains_key(&frame) {
                continue;
            }
            let mut page = kernel.page(frame).unwrap_or_default();
            for bytes in page.chunks_exact_mut(8) {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                let old = u64::from_le_bytes(word);
                if old & PRESENT == 0 {
                    continue;
                }
                let target = (old & ADDRESS) >> 12;
                if level > 1 && old & LARGE != 0 {
                    return Err(SynthError::layout("a domain has no large pages"));
                }
                if level > 1 {
                    tables.push((target, level - 1));
                }
                // Memory of devices has the same frames for all.
                let machine = of.get(&target).copied().unwrap_or(target);
                bytes.copy_from_slice(&(old & !ADDRESS | machine << 12).to_le_bytes());
            }
            self.dom0.levels.insert(of[&frame], level);
            pages.insert(frame, page);
        }
        for (frame, machine) in pairs {
            let page = pages.remove(frame).or_else(|| kernel.page(*frame));
            self.memory.put(machine * PAGE, &page.unwrap_or_default());
        }
        Ok(())
    }

    /// Writes m2p. All domains number their frames from 0 on.
    fn m2p(&mut self, pairs: &[(u64, u64)]) -> Result<(), SynthError> {
        let own: HashMap<u64, u64> = pairs.iter().map(|(own, at)| (*at, *own)).collect();
        let spans = self.spec.spans();
        let mut others = 0..;
        for group in self.groups.clone() {
            for first in group.step_by(GROUP as usize) {
                let page = self.allocate()?;
                self.map(M2P + 8 * first, page * PAGE, PAGE)?;
                for at in 0..GROUP {
                    let entry = match spans.owner(first + at) {
                        Some(XenOwner::Domain(0)) => own.get(&(first + at)).copied(),
                        Some(XenOwner::Domain(_)) => others.next(),
                        _ => None,
                    };
                    let entry = entry.unwrap_or(NONE);
                    self.memory.put64(page * PAGE + 8 * at, entry);
                }
            }
        }
        Ok(())
    }

    /// type_info of a page of dom0.
    pub(super) fn type_info(&self, frame: u64) -> u64 {
        const VALIDATED: u64 = 1 << 58;
        let shift = match self.spec.version <= LAST_OLD_TYPES {
            true => 60,
            false => 61,
        };
        match self.dom0.levels.get(&frame) {
            Some(level) => level << shift | VALIDATED | 1,
            // Mapped writable; some were page tables before.
            None if frame % 16 == 5 => 1 << shift,
            None => 7 << shift | VALIDATED | 1,
        }
    }
}

/// Returns `count` of the frames, in an order in which hardly two lie behind each other.
fn mixed(frames: &[u64], count: usize) -> Vec<u64> {
    let len = count.min(frames.len()).max(1);
    let step = [5, 7, 11, 13]
        .into_iter()
        .find(|step| !len.is_multiple_of(*step));
    let step = step.unwrap_or(1);
    (0..len).map(|at| frames[(at * step + 3) % len]).collect()
}

fn too_small() -> SynthError {
    SynthError::layout("dom0 has too little memory for its kernel and its table of frames")
}
