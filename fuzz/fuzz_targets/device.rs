//! Arbitrary bytes as the blocks of a dump device: the contents that they describe are within
//! the device, and reads never leave it.
#![no_main]

use bigiron_format::ReadAt;
use bigiron_format::device::{
    BLOCK_SIZE, BlockPosition, DeviceContents, DeviceHeader, end_block_offset, find, find_claims,
};
use bigiron_format::kdump::Utsname;
use libfuzzer_sys::fuzz_target;

/// Size of the device in bytes; inputs are at its start and at its end.
const SIZE: usize = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let mut device = vec![0; SIZE];
    let (start, end) = data.split_at(data.len() / 2);
    let end_block = end_block_offset(SIZE as u64) as usize;
    let start = &start[..start.len().min(BLOCK_SIZE)];
    let end = &end[..end.len().min(BLOCK_SIZE)];
    device[..start.len()].copy_from_slice(start);
    device[end_block..end_block + end.len()].copy_from_slice(end);
    // No input has a valid checksum by chance: the last bytes are corrected.
    mend(&mut device[..BLOCK_SIZE], BlockPosition::Start);
    mend(&mut device[end_block..], BlockPosition::End);
    let _ = find_claims(&device);
    let Ok(Some(found)) = find(&device) else {
        return;
    };
    let size = SIZE as u64;
    let (offset, length) = found.contents(size);
    assert!(offset >= BLOCK_SIZE as u64);
    assert!(length == 0 || offset + length <= size);
    for (place, at) in &found.good {
        let block = device[*at as usize..][..BLOCK_SIZE].to_vec();
        let mut header = DeviceHeader::decode(&block, *place, *at).expect("it was good before");
        // Bytes that are not UTF-8 are not preserved.
        header.utsname = Utsname::default();
        let again = DeviceHeader::decode(&header.encode(*place), *place, *at);
        assert_eq!(again.expect("our own block"), header);
    }
    let contents = DeviceContents::new(device, offset, length);
    let mut page = [0; 4096];
    for at in [0, length / 2, length.saturating_sub(1), length, u64::MAX] {
        let count = contents.read_at(at, &mut page).expect("bytes in memory");
        assert!(count as u64 <= length.saturating_sub(at));
        assert!(contents.next_data(at) >= at && contents.next_hole(at) >= at);
    }
    bigiron_fuzz::check_dump(data);
});

/// Corrects the checksum of a block with the signature.
fn mend(block: &mut [u8], place: BlockPosition) {
    if !bigiron_format::device::is_device(block) {
        return;
    }
    // The error contains the correct checksum.
    if let Err(error) = DeviceHeader::decode(block, place, 0) {
        let text = error.to_string();
        let wanted = text.split("expected 0x").nth(1).and_then(|rest| {
            let digits = rest.split(',').next()?;
            u64::from_str_radix(digits, 16).ok()
        });
        if let Some(wanted) = wanted.filter(|_| text.contains("checksum")) {
            block[BLOCK_SIZE - 8..].copy_from_slice(&wanted.to_le_bytes());
        }
    }
}
