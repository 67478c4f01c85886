use super::*;
use proptest::prelude::*;

fn headers() -> KdumpHeaders {
    let notes = vec![7; 5000];
    let erase_info = b"erase a size 1\n".to_vec();
    let layout = Layout::new(4096, (notes.len() + erase_info.len()) as u64, 70_000);
    let mut utsname = Utsname::default();
    utsname.names[2] = "6.12.0".into();
    utsname.names[4] = "x86_64".into();
    KdumpHeaders {
        endian: Endian::Little,
        version: VERSION,
        utsname,
        timestamp: (1_700_000_000, 5),
        codec_flags: 0x20,
        incomplete: true,
        block_size: 4096,
        cpu_count: 4,
        phys_base: 0x1000_0000,
        dump_level: 31,
        lacks_struct_pages: true,
        split: Some((10, 60_000)),
        end_frame: 70_000,
        offset_note: layout.notes(),
        notes,
        erase_info,
        vmcoreinfo: Some((layout.notes() + 100, 3000)),
        layout,
    }
}

#[test]
fn headers_round_trip_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let headers = KdumpHeaders {
            endian,
            ..headers()
        };
        assert_eq!(KdumpHeaders::read(&headers.encode()).unwrap(), headers);
    }
}

#[test]
fn layout_matches_other_readers() {
    let layout = headers().layout;
    assert_eq!(layout.notes(), 4096 + 104);
    assert_eq!(layout.sub_header_blocks, 2);
    assert_eq!(layout.ram_bitmap(), 3 * 4096);
    assert_eq!(layout.dumped_bitmap(), (3 + 3) * 4096);
    assert_eq!(layout.descriptor(2), (3 + 6) * 4096 + 48);
}

#[test]
fn truncated_headers_are_an_error_with_the_offset() {
    let bytes = headers().encode();
    for len in 0..4096 + 104 + 5000 {
        assert!(
            matches!(
                KdumpHeaders::read(&bytes[..len]).unwrap_err(),
                FormatError::Truncated { .. }
            ),
            "{len}"
        );
    }
}

#[test]
fn implausible_fields_are_refused_by_name() {
    let refuse = |offset: usize, value: u32| {
        let mut bytes = headers().encode();
        Endian::Little.put_u32(&mut bytes, offset, value);
        KdumpHeaders::read(&bytes).unwrap_err().to_string()
    };
    assert!(refuse(0, 0).contains("signature"));
    assert!(refuse(8, 0).contains("version"));
    assert!(refuse(428, 0).contains("block size"));
    assert!(refuse(428, 1 << 31).contains("block size"));
    assert!(refuse(432, 0).contains("sub-header"));
    assert!(refuse(432, u32::MAX).contains("sub-header"));
    assert!(refuse(436, 0).contains("bitmap blocks"));
    assert!(refuse(4096 + 100, u32::MAX).contains("page frames"));
    assert!(refuse(4096 + 60, u32::MAX).contains("notes"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        changes in proptest::collection::vec((0_usize..4300, any::<u8>()), 0..20),
    ) {
        let mut bytes = headers().encode();
        for (offset, value) in changes {
            bytes[offset] = value;
        }
        let _ = KdumpHeaders::read(&bytes);
    }
}
