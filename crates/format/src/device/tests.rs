use super::*;
use crate::kdump::Utsname;

const SIZE: usize = 1 << 20;

fn header() -> DeviceHeader {
    let mut utsname = Utsname::default();
    utsname.names[1] = "host".into();
    DeviceHeader {
        id: DumpId(*b"0123456789abcdef"),
        generation: 7,
        valid: true,
        complete: true,
        contents: ContentsKind::Kdump,
        device_size: SIZE as u64,
        offset: CONTENTS_OFFSET,
        length: 1000,
        began: 1,
        ended: 2,
        utsname,
        report: None,
        next: 0,
    }
}

fn device(start: &DeviceHeader, end: &DeviceHeader) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    bytes[..BLOCK_SIZE].copy_from_slice(&start.encode(BlockPosition::Start));
    bytes[SIZE - BLOCK_SIZE..].copy_from_slice(&end.encode(BlockPosition::End));
    bytes
}

#[test]
fn header_round_trips_through_either_block() {
    let whole = device(&header(), &header());
    let found = find(&whole).unwrap().unwrap();
    assert_eq!(found.header, header());
    assert_eq!(found.good.len(), 2);
    assert_eq!(found.damage, None);
    assert_eq!(found.contents(SIZE as u64), (CONTENTS_OFFSET, 1000));
    for lost in [0, SIZE - BLOCK_SIZE] {
        let mut one = whole.clone();
        one[lost..lost + BLOCK_SIZE].fill(0);
        let found = find(&one).unwrap().unwrap();
        assert_eq!(found.header, header());
        assert_eq!(found.good.len(), 1);
        assert!(found.damage.is_some());
    }
    assert!(find(&vec![0_u8; SIZE]).unwrap().is_none());
    assert!(find(&Vec::new()).unwrap().is_none());
}

#[test]
fn every_flipped_bit_of_a_block_is_detected() {
    let block = header().encode(BlockPosition::Start);
    for bit in 0..BLOCK_SIZE * 8 {
        let mut block = block;
        block[bit / 8] ^= 1 << (bit % 8);
        assert!(
            DeviceHeader::decode(&block, BlockPosition::Start, 0).is_err(),
            "{bit}"
        );
    }
}

#[test]
fn newer_block_is_used() {
    let cleared = DeviceHeader {
        generation: 8,
        valid: false,
        ..header()
    };
    for (start, end) in [(&cleared, &header()), (&header(), &cleared)] {
        assert!(!find(&device(start, end)).unwrap().unwrap().header.valid);
    }
}

#[test]
fn newer_block_is_used_after_the_generation_wrapped() {
    let last = DeviceHeader {
        generation: u64::MAX,
        ..header()
    };
    let mut next = last.clone();
    next.advance();
    next.valid = false;
    assert_eq!(next.generation, 0);
    for (start, end) in [(&next, &last), (&last, &next)] {
        assert!(!find(&device(start, end)).unwrap().unwrap().header.valid);
    }
}

#[test]
fn blocks_with_wrong_location_or_contents_are_refused() {
    let whole = device(&header(), &header());
    let mut swapped = whole.clone();
    swapped.rotate_right(BLOCK_SIZE);
    assert!(find(&swapped).unwrap().is_none());
    for (offset, length) in [
        (0, 1000),
        (CONTENTS_OFFSET, SIZE as u64),
        (CONTENTS_OFFSET, u64::MAX),
        (u64::MAX, 0),
        (u64::MAX, u64::MAX),
        (SIZE as u64, 0),
    ] {
        let bad = DeviceHeader {
            offset,
            length,
            ..header()
        };
        let found = find(&device(&bad, &bad)).unwrap();
        assert!(found.is_none(), "{length} at {offset}: {found:?}");
    }
}

#[test]
fn shortened_device_returns_the_remaining_contents() {
    let long = DeviceHeader {
        length: SIZE as u64 / 2,
        ..header()
    };
    let mut cut = device(&long, &long);
    cut.truncate(CONTENTS_OFFSET as usize + 10_000);
    let found = find(&cut).unwrap().unwrap();
    assert!(found.is_cut(cut.len() as u64));
    assert_eq!(found.contents(cut.len() as u64), (CONTENTS_OFFSET, 10_000));
    let open = DeviceHeader {
        length: 0,
        complete: false,
        ..header()
    };
    let found = find(&device(&open, &open)).unwrap().unwrap();
    let most = (SIZE - BLOCK_SIZE) as u64 - CONTENTS_OFFSET;
    assert_eq!(found.contents(SIZE as u64), (CONTENTS_OFFSET, most));
}

#[test]
fn reads_stop_at_the_end_of_the_contents() {
    let bytes: Vec<u8> = (0..200).collect();
    let contents = DeviceContents::new(bytes, 50, 100);
    assert_eq!(contents.read_vec_at("all", 0, 100).unwrap()[..2], [50, 51]);
    assert!(contents.read_vec_at("more", 50, 51).is_err());
    let mut buffer = [0; 8];
    assert_eq!(contents.read_at(98, &mut buffer).unwrap(), 2);
    assert_eq!(contents.read_at(u64::MAX, &mut buffer).unwrap(), 0);
    assert_eq!(contents.size(), 100);
    assert_eq!(contents.next_hole(0), 100);
}

#[test]
fn dump_devices_have_no_claims_and_zfs_pools_do() {
    let whole = device(&header(), &header());
    assert_eq!(find_claims(&whole).unwrap(), []);
    assert_eq!(find_claims(&Vec::new()).unwrap(), []);
    let mut pool = vec![0; 2 << 20];
    let at = (1 << 20) + (512 << 10) + (128 << 10) + 3 * 1024;
    pool[at..at + 8].copy_from_slice(&0x00ba_b10c_u64.to_le_bytes());
    let claims = find_claims(&pool).unwrap();
    assert_eq!(claims[0].name, "ZFS pool member");
    assert_eq!(claims[0].offset, at as u64);
}
