//! Dumps as the firmware of Fujitsu's servers writes them (docs/formats/sadump.md).

use crate::machine::Machine;

const BLOCK: usize = 4096;
const SIGNATURE: &[u8] = b"sadump\0\0";
const SYSTEM: [u8; 16] = *b"the system's id.";
const SET: [u8; 16] = *b"the disk set id.";
const CPU_STATE: usize = 1024;

/// What a dump is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SadumpShape {
    /// One partition.
    Single,
    /// A file copied from a partition, behind a block of its own.
    Media,
    /// A set of so many disks, which share the pages evenly.
    Set(usize),
}

impl Machine {
    /// Returns the contents of each disk.
    pub fn sadump(&self, shape: SadumpShape) -> Vec<Vec<u8>> {
        self.write_sadump(shape, None)
    }

    /// Returns the only disk of a dump that was written after this machine's kernel crashed and
    /// `capture` ran on the first CPU, in memory that this machine does not have.
    pub fn sadump_of_both(&self, capture: &Self) -> Vec<u8> {
        self.write_sadump(SadumpShape::Single, Some(capture))
            .remove(0)
    }

    fn write_sadump(&self, shape: SadumpShape, capture: Option<&Self>) -> Vec<Vec<u8>> {
        let machines = || [Some(self), capture].into_iter().flatten();
        let frames = machines().flat_map(|machine| machine.ram().iter().cloned().flatten());
        let mut frames: Vec<u64> = frames.collect();
        frames.sort_unstable();
        let page = |frame: u64| {
            let mut found = machines().filter_map(|machine| machine.page(frame));
            found.next().unwrap_or_default()
        };
        let is_zero = |frame: &u64| page(*frame).iter().all(|byte| *byte == 0);
        let dumped: Vec<u64> = frames.iter().copied().filter(|f| !is_zero(f)).collect();
        let end = frames.last().map_or(0, |last| last + 1);
        let bitmap = |set: &[u64]| {
            let mut bytes = vec![0; (end as usize).div_ceil(8).next_multiple_of(BLOCK)];
            for frame in set {
                bytes[*frame as usize / 8] |= 0x80 >> (frame % 8);
            }
            bytes
        };
        let bitmaps = [bitmap(&frames), bitmap(&dumped)];
        let first_cpu = capture.unwrap_or(self).top_table();
        let sub_header = self.sub_header(first_cpu);
        let mut headers = dump_header(self, end, &sub_header, &bitmaps, dumped.len());
        headers.extend(sub_header);
        headers.extend(bitmaps.concat());
        let disks = match shape {
            SadumpShape::Set(disks) => disks,
            SadumpShape::Single | SadumpShape::Media => 1,
        };
        let shares = dumped.chunks(dumped.len().div_ceil(disks).max(1));
        let mut files: Vec<Vec<u8>> = shares
            .map(|share| share.iter().flat_map(|frame| page(*frame)).collect())
            .collect();
        files.resize(disks, Vec::new());
        if matches!(shape, SadumpShape::Set(_)) {
            headers = [disk_set(disks), headers].concat();
        }
        files[0] = [headers, std::mem::take(&mut files[0])].concat();
        for (index, file) in files.iter_mut().enumerate() {
            let number = match shape {
                SadumpShape::Set(_) => index as u32 + 1,
                _ => 0,
            };
            *file = [partition(number, BLOCK + file.len()), std::mem::take(file)].concat();
        }
        if shape == SadumpShape::Media {
            files[0] = [media(), std::mem::take(&mut files[0])].concat();
        }
        files
    }

    /// The states of the CPUs; `first_table` is the page table of the first one.
    fn sub_header(&self, first_table: u64) -> Vec<u8> {
        let cpus = self.spec().options.cpus;
        let mut out = vec![0; 4 + 16 * cpus as usize];
        put(&mut out, 0, &(cpus * CPU_STATE as u32).to_le_bytes());
        for cpu in 0..cpus {
            put(
                &mut out,
                4 + 16 * cpu as usize,
                &u64::from(cpu).to_le_bytes(),
            );
        }
        for cpu in 0..cpus {
            let registers = self.registers(cpu);
            let mut state = vec![0; CPU_STATE];
            put(&mut state, 892, &registers.sp.to_le_bytes());
            put(&mut state, 900, &registers.fp.to_le_bytes());
            put(&mut state, 984, &registers.pc.to_le_bytes());
            // Kernel mode: CS.
            put(&mut state, 940, &0x10_u32.to_le_bytes());
            // EFER: long mode is enabled and active.
            put(&mut state, 992, &0xd01_u64.to_le_bytes());
            // The others have been stopped while programs ran.
            let table = match cpu {
                0 => first_table,
                _ => self.top_table() | 0x1000,
            };
            put(&mut state, 1008, &table.to_le_bytes());
            out.extend(state);
        }
        out.resize(out.len().next_multiple_of(BLOCK), 0);
        out
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn volume(number: u32) -> [u8; 16] {
    let mut id = *b"the volume's id.";
    id[15] = number as u8;
    id
}

fn partition(number: u32, used: usize) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    put(&mut out, 0, SIGNATURE);
    put(&mut out, 88, &SYSTEM);
    put(&mut out, 104, &SET);
    put(&mut out, 120, &volume(number));
    put(&mut out, 152, &number.to_le_bytes());
    put(&mut out, 160, &(used as u64).to_le_bytes());
    let mut magic = 0x1234_5678_u32;
    for word in out[168..].chunks_exact_mut(4) {
        word.copy_from_slice(&magic.to_le_bytes());
        magic = magic.wrapping_add(7).wrapping_mul(11);
    }
    out
}

fn media() -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    put(&mut out, 0, &SYSTEM);
    put(&mut out, 16, &SET);
    // The first file of a backup.
    out[48] = 1;
    out
}

fn disk_set(disks: usize) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    put(&mut out, 0, &1_u32.to_le_bytes());
    put(&mut out, 4, &(disks as u32).to_le_bytes());
    for index in 1..disks {
        put(&mut out, 16 + 32 * (index - 1), &volume(index as u32 + 1));
    }
    out
}

fn dump_header(
    machine: &Machine,
    end: u64,
    sub_header: &[u8],
    bitmaps: &[Vec<u8>; 2],
    pages: usize,
) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    put(&mut out, 0, SIGNATURE);
    let blocks = |bytes: &[u8]| (bytes.len() / BLOCK) as u32;
    for (at, word) in [
        (8, 1),
        (40, BLOCK as u32),
        (48, blocks(sub_header)),
        (52, blocks(&bitmaps[0])),
        (56, blocks(&bitmaps[1])),
        (60, end as u32),
        (80, machine.spec().options.cpus),
    ] {
        put(&mut out, at, &word.to_le_bytes());
    }
    put(&mut out, 88, &end.to_le_bytes());
    put(&mut out, 112, &(pages as u64).to_le_bytes());
    out
}
