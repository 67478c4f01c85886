//! kdump-compressed dumps whose parts fit together, with chosen bitmaps and page descriptors.

use bigiron_format::bytes::Endian;
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::elf::note;
use bigiron_format::flattened;
use bigiron_format::kdump::{
    KdumpHeaders, Layout, PageDescriptor, Utsname, flags_of_codec, header::VERSION,
};

use crate::choices::Choices;

const PAGE: usize = 4096;
/// Most page frames of a dump.
const FRAMES: u64 = 96;

/// Writes a dump of the chosen pages.
pub fn encode(choices: &mut Choices<'_>) -> Vec<u8> {
    let codec = Codec::ALL[usize::from(choices.byte()) % Codec::ALL.len()];
    let text = b"OSRELEASE=6.12.0\nPAGESIZE=4096\n";
    let notes = note::encode(note::VMCOREINFO, 0, text, Endian::Little);
    let layout = Layout::new(PAGE as u64, notes.len() as u64, FRAMES);
    let mut utsname = Utsname::default();
    utsname.names[4] = "x86_64".into();
    let split = choices.byte();
    let headers = KdumpHeaders {
        endian: Endian::Little,
        version: VERSION,
        utsname,
        timestamp: (0, 0),
        codec_flags: flags_of_codec(codec),
        incomplete: choices.byte() < 64,
        block_size: PAGE as u32,
        cpu_count: 1,
        phys_base: 0,
        dump_level: 31,
        lacks_struct_pages: false,
        split: (split < 64).then(|| (0, choices.number(FRAMES / 2))),
        end_frame: FRAMES,
        vmcoreinfo: None,
        erase_info: Vec::new(),
        offset_note: layout.notes(),
        notes,
        layout,
    };
    let mut out = headers.encode();
    out.resize(layout.descriptors() as usize, 0);
    let mut dumped = Vec::new();
    for byte in 0..FRAMES as usize / 8 {
        let bits = choices.byte();
        // RAM that is not dumped; rarely pages that are dumped and are no RAM.
        out[layout.ram_bitmap() as usize + byte] = choices.number(0xff) as u8;
        out[layout.dumped_bitmap() as usize + byte] = bits;
        let frames = (0..8).map(|bit| (byte * 8 + bit) as u64);
        dumped.extend(frames.filter(|frame| bits >> (frame % 8) & 1 == 1));
    }
    let mut data = layout.descriptor(dumped.len() as u64);
    let mut pages = Vec::new();
    for frame in dumped {
        let (stored, flags) = stored(codec, frame as u8, choices.byte());
        let descriptor = PageDescriptor {
            offset: choices.number(data),
            size: choices.number(stored.len() as u64) as u32,
            flags: choices.number(u64::from(flags)) as u32,
            page_flags: 0,
        };
        out.extend(descriptor.encode(Endian::Little));
        data += stored.len() as u64;
        pages.extend(stored);
    }
    out.extend(pages);
    match choices.byte() {
        0..128 => out,
        _ => flatten(choices, &out),
    }
}

/// Returns a page as it is stored, and its flags.
fn stored(codec: Codec, frame: u8, fill: u8) -> (Vec<u8>, u32) {
    let mut page = vec![fill; PAGE];
    page[0] = frame;
    let mut room = vec![0; PAGE - 1];
    let mut compressor = Compression::new(codec).compressor().expect("a context");
    match compressor.compress(&page, &mut room) {
        Some(len) => (room[..len].to_vec(), flags_of_codec(codec)),
        None => (page, 0),
    }
}

/// Cuts a dump into records, in another order, some of which overlap.
fn flatten(choices: &mut Choices<'_>, dump: &[u8]) -> Vec<u8> {
    let size = 512 << (choices.byte() % 6);
    let mut pieces: Vec<(u64, &[u8])> = dump
        .chunks(size)
        .enumerate()
        .map(|(index, piece)| ((index * size) as u64, piece))
        .collect();
    for _ in 0..choices.byte() % 16 {
        let (one, two) = (choices.below(pieces.len()), choices.below(pieces.len()));
        match choices.byte() % 4 {
            0 => pieces.push(pieces[one]),
            1 => pieces[one].0 = choices.number(pieces[two].0) % (1 << 20),
            _ => pieces.swap(one, two),
        }
    }
    let mut out = flattened::header().to_vec();
    for (offset, piece) in pieces {
        out.extend(flattened::record_header(offset, piece.len() as u64));
        out.extend(piece);
    }
    out.extend(flattened::end_record());
    out
}
