//! Memory images: raw with a memory map, LiME's format, and AVML's compressed one.

use std::fmt::Write;

use crate::machine::Machine;

/// Maximum size of the data in a chunk of snappy's framing format.
const CHUNK: usize = 64 << 10;
/// Maximum size of a range that AVML writes with one header.
const AVML_RANGE: usize = 16 << 20;

impl Machine {
    /// Returns the RAM of the machine, one range after the other, and its memory map in the form
    /// of /proc/iomem.
    pub fn raw_image(&self) -> (Vec<u8>, String) {
        let (mut bytes, mut map) = (Vec::new(), String::new());
        for (start, data) in self.image_ranges() {
            let last = start + data.len() as u64 - 1;
            let _ = writeln!(map, "{start:08x}-{last:08x} : System RAM");
            bytes.extend(data);
        }
        (bytes, map)
    }

    /// Returns the image that LiME makes with `format=lime`.
    pub fn lime_image(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (start, data) in self.image_ranges() {
            put_header(&mut out, b"EMiL", 1, start, data.len());
            out.extend(data);
        }
        out
    }

    /// Returns the image that AVML makes with `--compress`: 16 MiB without anything but zeros are
    /// left out.
    pub fn avml_image(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (mut start, data) in self.image_ranges() {
            for part in data.chunks(AVML_RANGE) {
                if part.iter().any(|byte| *byte != 0) {
                    put_header(&mut out, b"AVML", 2, start, part.len());
                    let stream = frames(part);
                    out.extend(&stream);
                    out.extend((stream.len() as u64).to_le_bytes());
                }
                start += part.len() as u64;
            }
        }
        out
    }

    /// First address and bytes of each range of RAM.
    fn image_ranges(&self) -> Vec<(u64, Vec<u8>)> {
        let page = self.page_size() as usize;
        let bytes_of = |frames: &std::ops::Range<u64>| {
            let mut bytes = vec![0; (frames.end - frames.start) as usize * page];
            for (pfn, out) in frames.clone().zip(bytes.chunks_exact_mut(page)) {
                if let Some(content) = self.page(pfn) {
                    out.copy_from_slice(&content);
                }
            }
            (frames.start * page as u64, bytes)
        };
        self.ram().iter().map(bytes_of).collect()
    }
}

fn put_header(out: &mut Vec<u8>, magic: &[u8; 4], version: u32, start: u64, len: usize) {
    out.extend(magic);
    out.extend(version.to_le_bytes());
    for value in [start, start + len as u64 - 1, 0] {
        out.extend(value.to_le_bytes());
    }
}

/// Returns a stream in snappy's framing format: chunks of each type in turn.
fn frames(data: &[u8]) -> Vec<u8> {
    let mut out = b"\xff\x06\0\0sNaPpY".to_vec();
    for (index, chunk) in data.chunks(CHUNK).enumerate() {
        let (kind, stored) = match index % 2 {
            0 => (0, literals(chunk)),
            _ => (1, chunk.to_vec()),
        };
        let crc = crc32c(chunk);
        let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
        out.push(kind);
        out.extend(&(stored.len() as u32 + 4).to_le_bytes()[..3]);
        out.extend(masked.to_le_bytes());
        out.extend(stored);
    }
    out
}

/// Returns a snappy block without any copy: literals of up to 256 bytes.
fn literals(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut len = data.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    for part in data.chunks(256) {
        // Tag 60 << 2: the length less one follows in one byte.
        out.extend([0xf0, (part.len() - 1) as u8]);
        out.extend(part);
    }
    out
}

/// The CRC of Castagnoli's polynomial, reflected.
fn crc32c(data: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        })
        .collect();
    !data.iter().fold(!0, |crc, byte| {
        (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 0xff) as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
