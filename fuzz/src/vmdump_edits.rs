//! Modified bytes in the records of a valid vmdump, with corrected checksums, so that the code
//! behind the checksums is reached.

use bigiron_format::vmdump::codec::checksum;
use bigiron_format::vmdump::{VmdumpFile, record};

/// Locations of the records of a valid dump, with their skippable frames.
pub fn records(good: &[u8]) -> Vec<(usize, usize)> {
    let file = VmdumpFile::open(Box::new(good.to_vec())).expect("a good one");
    let chunks = (0..file.chunk_groups()).flat_map(|piece| file.chunks(piece).expect("an index"));
    let mut offsets: Vec<u64> = chunks.map(|chunk| chunk.offset).collect();
    let root = file.root().expect("a root");
    offsets.extend(
        (0..file.chunk_groups()).filter_map(|piece| Some(file.index_record(piece)?.offset)),
    );
    offsets.extend([0, root.directory.offset, root.metadata.offset]);
    offsets.push(root.metadata.offset + root.metadata.size);
    let place = |offset: u64| {
        let offset = offset as usize;
        let len = record::skippable_len(&good[offset..]).expect("a record") as usize;
        (offset, len)
    };
    offsets.into_iter().map(place).collect()
}

/// Each eight bytes of `edits`: a record, an offset in it, and four new bytes.
pub fn patched(good: &[u8], records: &[(usize, usize)], edits: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for edit in edits.chunks_exact(8).take(16) {
        let number = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        // The last records are index, directory, metadata and root.
        let (offset, len) = records[records.len() - 1 - number % records.len()];
        let inside = usize::from(u16::from_le_bytes([edit[2], edit[3]])) % (len - 8);
        let at = offset + inside.max(8);
        let room = (offset + len - 8).saturating_sub(at).min(4);
        bytes[at..at + room].copy_from_slice(&edit[4..4 + room]);
        let end = offset + len - 8;
        let sum = checksum(&bytes[offset + 8..end]);
        bytes[end..end + 8].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}
