//! Headers of a kdump-compressed dump.

use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::kdump::{KdumpHeaders, Layout, flags_of_codec};
use bigiron_kernel::arch;

use super::adaptive::STRENGTHS;
use crate::format::PageCompression;
use crate::job::DumpJob;
use crate::notes::{NotesGoal, output_notes};

/// Returns the headers of a dump that is not complete yet.
pub(super) fn make_headers(job: &DumpJob, compression: PageCompression) -> KdumpHeaders {
    let subject = job.subject;
    let source = subject.source();
    let text = subject.vmcoreinfo_text();
    let rules = job.record_of_rules();
    let notes = output_notes(source, text, NotesGoal::Header, &rules);
    let block_size = job.page_size() as u32;
    let end_frame = job.filter.end_frame().0;
    let sub_header = notes.bytes.len() + notes.erase_info.len();
    let layout = Layout::new(u64::from(block_size), sub_header as u64, end_frame);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let text = notes.vmcoreinfo;
    let text = text.map(|text| (layout.notes() + text.start as u64, text.len() as u64));
    KdumpHeaders {
        endian: source.endian(),
        version: bigiron_format::kdump::header::VERSION,
        utsname: subject.utsname().clone(),
        timestamp: (now.as_secs().cast_signed(), i64::from(now.subsec_micros())),
        codec_flags: codec_flags(compression),
        incomplete: true,
        block_size,
        cpu_count: notes.cpus.max(1) as u32,
        phys_base: arch::find(source.machine())
            .map_or(0, |architecture| (architecture.phys_base)(subject.info())),
        dump_level: u32::from(job.dump_level()),
        lacks_struct_pages: job.left_out().struct_pages,
        split: None,
        end_frame,
        vmcoreinfo: text,
        offset_note: layout.notes(),
        notes: notes.bytes,
        erase_info: notes.erase_info,
        layout,
    }
}

/// Returns the flags of all codecs that a page may use, for the header. Readers use the flags
/// of each page descriptor.
fn codec_flags(compression: PageCompression) -> u32 {
    match compression {
        PageCompression::Fixed(fixed) => flags_of_codec(fixed.codec),
        PageCompression::Adaptive => STRENGTHS.iter().fold(0, |flags, strength| {
            flags | flags_of_codec(strength.compression.codec)
        }),
    }
}
