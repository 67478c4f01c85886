//! The headers of a kdump-compressed dump that has no notes.

use bigiron_format::bytes::Endian;
use bigiron_format::kdump::{KdumpHeaders, Layout, Utsname, header};

/// Size of a page and of a block.
const PAGE: u32 = 4096;

/// Returns the headers of a dump of an x86-64 machine whose memory ends before page frame `end`.
pub fn headers(end: u64) -> KdumpHeaders {
    let mut utsname = Utsname::default();
    utsname.names[4] = "x86_64".into();
    KdumpHeaders {
        endian: Endian::Little,
        version: header::VERSION,
        utsname,
        timestamp: (0, 0),
        codec_flags: 0,
        incomplete: false,
        block_size: PAGE,
        cpu_count: 1,
        phys_base: 0,
        dump_level: 0,
        lacks_struct_pages: false,
        split: None,
        end_frame: end,
        offset_note: 0,
        notes: Vec::new(),
        erase_info: Vec::new(),
        vmcoreinfo: None,
        layout: Layout::new(PAGE.into(), 0, end),
    }
}
