use super::*;
use crate::elf::write::CoreLayout;
use proptest::prelude::*;

fn core(segments: usize) -> Vec<u8> {
    let segment = |index: u64| LoadSegment {
        file_offset: 0,
        file_size: 0x1000,
        physical: PhysAddr(index * 0x10_0000),
        virt: VirtAddr(0xffff_8880_0000_0000 + index * 0x10_0000),
        memory_size: 0x2000,
    };
    let mut layout = CoreLayout {
        machine: MACHINE_X86_64,
        endian: Endian::Little,
        notes: vec![0; 12],
        segments: (0..segments as u64).map(segment).collect(),
    };
    let size = layout.place(0x1000).unwrap();
    let mut bytes = layout.encode(false);
    bytes.resize(size.min(1 << 24) as usize, 0);
    bytes
}

#[test]
fn headers_round_trip() {
    let headers = CoreHeaders::read(&core(3)).unwrap();
    assert_eq!(headers.segments.len(), 3);
    assert_eq!(headers.segments[2].physical, PhysAddr(0x20_0000));
    assert_eq!(headers.segments[2].memory_size, 0x2000);
    assert_eq!(
        headers.segments[1].file_offset - headers.segments[0].file_offset,
        0x1000
    );
    assert_eq!(
        (headers.machine, headers.incomplete),
        (MACHINE_X86_64, false)
    );
}

#[test]
fn proc_kcore_segments_that_are_not_ram_are_skipped() {
    let mut bytes = core(3);
    // p_paddr of the second PT_LOAD, after the ELF header and PT_NOTE.
    let at = 64 + 2 * 56 + 24;
    assert_eq!(bytes[at..at + 8], 0x10_0000_u64.to_le_bytes());
    bytes[at..at + 8].fill(0xff);
    let headers = CoreHeaders::read(&bytes).unwrap();
    let places: Vec<_> = headers.segments.iter().map(|s| s.physical.0).collect();
    assert_eq!(places, [0, 0x20_0000]);
}

#[test]
fn header_counts_above_16_bits_are_in_section_0() {
    let headers = CoreHeaders::read(&core(70_000)).unwrap();
    assert_eq!(headers.segments.len(), 70_000);
}

/// A file of zeros after its headers, of any size.
struct Sparse {
    headers: Vec<u8>,
    size: u64,
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        buf.fill(0);
        self.headers.read_at(offset, buf)?;
        Ok(buf.len())
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[test]
fn program_headers_in_holes_of_a_file_are_refused_by_the_memory_limit() {
    let mut headers = core(70_000);
    headers.truncate(EHDR_SIZE + SHDR_SIZE);
    // sh_info of section 0, and e_shoff.
    headers[40..48].copy_from_slice(&(EHDR_SIZE as u64).to_le_bytes());
    headers[EHDR_SIZE + 44..EHDR_SIZE + 48].copy_from_slice(&MAX_PROGRAM_HEADERS.to_le_bytes());
    let size = 1 << 40;
    let error = CoreHeaders::read(&Sparse { headers, size }).unwrap_err();
    assert!(matches!(error, FormatError::Memory { .. }), "{error}");
    assert!(error.to_string().contains("--memory-limit"), "{error}");
}

#[test]
fn truncated_headers_are_an_error_with_the_offset() {
    let bytes = core(3);
    for len in 0..64 + 4 * 56 + 12 {
        let error = CoreHeaders::read(&bytes[..len]).unwrap_err();
        assert!(
            matches!(error, FormatError::Truncated { .. }),
            "{len}: {error}"
        );
    }
}

#[test]
fn other_files_are_refused_by_field() {
    let refuse = |offset: usize, value: u8| {
        let mut bytes = core(1);
        bytes[offset] = value;
        CoreHeaders::read(&bytes).unwrap_err().to_string()
    };
    assert!(refuse(0, 0).contains("signature"));
    assert!(refuse(4, 1).contains("64 bits"));
    assert!(refuse(5, 7).contains("byte order"));
    assert!(refuse(16, 2).contains("core file"));
    assert!(refuse(54, 32).contains("e_phentsize"));
    assert!(refuse(56, 0).contains("number of program headers"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 64..400)) {
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16..18].copy_from_slice(&[4, 0]);
        bytes[54..56].copy_from_slice(&[56, 0]);
        let _ = CoreHeaders::read(&bytes);
    }
}
