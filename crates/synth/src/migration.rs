//! The stream that QEMU migrates a machine with, and libvirt's save image around it
//! (docs/formats/migration.md).

use crate::machine::Machine;

const PAGE: usize = 4096;
/// Words about pages: a page of equal bytes, the list of blocks, a page, the end, the same block.
const ZERO: u64 = 2;
const BLOCKS: u64 = 4;
const DATA: u64 = 8;
const EOS: u64 = 16;
const SAME: u64 = 32;

/// How a guest is migrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationShape {
    /// A guest that stands still.
    Stopped,
    /// A guest that changes a part of its pages, which are sent again.
    Running,
    /// A stopped guest, saved by libvirt.
    Libvirt,
}

impl Machine {
    /// Returns the stream of a machine of x86-64, of QEMU's type q35.
    pub fn migration(&self, shape: MigrationShape) -> Vec<u8> {
        let stream = self.stream(shape == MigrationShape::Running);
        match shape {
            MigrationShape::Libvirt => {
                let xml = b"<domain type='kvm'/>\0";
                let mut out = b"LibvirtQemudSave".to_vec();
                let words = [2, xml.len() as u32, 1, 0, 0];
                out.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
                out.extend([0; 56]);
                out.extend(xml);
                out.extend(stream);
                out
            }
            _ => stream,
        }
    }

    fn stream(&self, is_running: bool) -> Vec<u8> {
        let end = self.ram().last().map_or(0, |range| range.end);
        // Physical memory from 2 GiB to 4 GiB is not RAM if there is any above.
        let (low, high) = (2 << 18, 4 << 18);
        let block_page = |frame: u64| {
            if frame < high {
                frame
            } else {
                frame - high + low
            }
        };
        let pages = if end > high { end - high + low } else { end };
        let mut out = b"QEVM\0\0\0\x03".to_vec();
        let name = b"pc-q35-7.2";
        out.push(7);
        out.extend((name.len() as u32).to_be_bytes());
        out.extend(name);

        let sizes = [("vga.vram", 4), ("pc.ram", pages), ("pc.bios", 2)];
        section(&mut out, 1, true);
        let total: u64 = sizes.iter().map(|(_, pages)| pages * PAGE as u64).sum();
        word(&mut out, total | BLOCKS);
        for (name, pages) in sizes {
            text(&mut out, name);
            word(&mut out, pages * PAGE as u64);
        }
        end_section(&mut out);

        let frames: Vec<u64> = self.ram().iter().cloned().flatten().collect();
        let mut stream = Pages {
            out,
            block: String::new(),
        };
        section(&mut stream.out, 2, false);
        stream.put("vga.vram", 0, &[7; PAGE]);
        for (index, frame) in frames.iter().enumerate() {
            let mut content = self.page(*frame).unwrap_or_default();
            // Such a page has other contents at first.
            if is_running && frame % 5 == 0 {
                content = vec![index as u8; PAGE];
            }
            stream.put("pc.ram", block_page(*frame), &content);
            if index % 1000 == 999 {
                end_section(&mut stream.out);
                section(&mut stream.out, 2, false);
                stream.block.clear();
            }
        }
        end_section(&mut stream.out);
        section(&mut stream.out, 3, false);
        stream.block.clear();
        stream.put("pc.bios", 1, &[9; PAGE]);
        if is_running {
            for frame in frames.iter().rev().filter(|frame| *frame % 5 == 0) {
                let content = self.page(*frame).unwrap_or_default();
                stream.put("pc.ram", block_page(*frame), &content);
            }
        }
        end_section(&mut stream.out);
        let mut out = stream.out;
        // The state of a device, and the end.
        out.push(4);
        out.extend(3_u32.to_be_bytes());
        text(&mut out, "timer");
        out.extend([0; 64]);
        out
    }
}

/// The pages of a section.
struct Pages {
    out: Vec<u8>,
    /// The block of the page before.
    block: String,
}

impl Pages {
    fn put(&mut self, block: &str, page: u64, content: &[u8]) {
        let is_equal = content.iter().all(|byte| *byte == 0);
        let is_same = self.block == block;
        let kind = if is_equal { ZERO } else { DATA } | if is_same { SAME } else { 0 };
        word(&mut self.out, (page * PAGE as u64) | kind);
        if !is_same {
            text(&mut self.out, block);
            self.block = block.to_owned();
        }
        match is_equal {
            true => self.out.push(0),
            false => self.out.extend(content),
        }
    }
}

/// Begins a section of the RAM, of type 1 (the first), 2 or 3 (the last).
fn section(out: &mut Vec<u8>, kind: u8, is_first: bool) {
    out.push(kind);
    out.extend(2_u32.to_be_bytes());
    if is_first {
        text(out, "ram");
        out.extend(0_u32.to_be_bytes());
        out.extend(4_u32.to_be_bytes());
    }
}

fn end_section(out: &mut Vec<u8>) {
    word(out, EOS);
    out.push(0x7e);
    out.extend(2_u32.to_be_bytes());
}

fn word(out: &mut Vec<u8>, word: u64) {
    out.extend(word.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend(text.as_bytes());
}
