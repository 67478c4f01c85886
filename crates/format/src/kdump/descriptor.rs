//! Page descriptors (`page_desc`): location and compression of a page's data.

use crate::bytes::Endian;
use crate::codec::Codec;

/// Size of a page descriptor in the file.
pub const DESCRIPTOR_SIZE: usize = 24;

/// A page descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageDescriptor {
    /// Offset of the data in the file; 0 if the page is lost.
    pub offset: u64,
    /// Size of the data, at most the page size.
    pub size: u32,
    /// Compression: [`flags_of_codec`].
    pub flags: u32,
    /// `page->flags` of the page; no tool sets it.
    pub page_flags: u64,
}

impl PageDescriptor {
    /// Decodes a descriptor from the start of `bytes`; returns `None` if they are too short.
    pub fn decode(bytes: &[u8], endian: Endian) -> Option<Self> {
        Some(Self {
            offset: endian.u64(bytes, 0)?,
            size: endian.u32(bytes, 8)?,
            flags: endian.u32(bytes, 12)?,
            page_flags: endian.u64(bytes, 16)?,
        })
    }

    /// Encodes the descriptor.
    pub fn encode(&self, endian: Endian) -> [u8; DESCRIPTOR_SIZE] {
        let mut bytes = [0; DESCRIPTOR_SIZE];
        endian.put_u64(&mut bytes, 0, self.offset);
        endian.put_u32(&mut bytes, 8, self.size);
        endian.put_u32(&mut bytes, 12, self.flags);
        endian.put_u64(&mut bytes, 16, self.page_flags);
        bytes
    }

    /// Returns true if the page's data was never written.
    pub fn is_lost(&self) -> bool {
        self.offset == 0
    }
}

/// The flag of a codec, in descriptors and in the header's status (DUMP_DH_COMPRESSED_*,
/// makedumpfile's diskdump_mod.h).
pub fn flags_of_codec(codec: Codec) -> u32 {
    match codec {
        Codec::None => 0,
        Codec::Zlib => 0x1,
        Codec::Lzo => 0x2,
        Codec::Snappy => 0x4,
        Codec::Zstd => 0x20,
    }
}

/// The codec of a descriptor's flags; `None` if unknown.
pub fn codec_of_flags(flags: u32) -> Option<Codec> {
    Codec::ALL
        .into_iter()
        .find(|codec| flags_of_codec(*codec) == flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_round_trip_in_both_byte_orders() {
        let descriptor = PageDescriptor {
            offset: 0x1234_5678_9abc,
            size: 77,
            flags: 0x20,
            page_flags: 5,
        };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = descriptor.encode(endian);
            assert_eq!(PageDescriptor::decode(&bytes, endian), Some(descriptor));
        }
        assert_eq!(PageDescriptor::decode(&[0; 23], Endian::Little), None);
    }

    #[test]
    fn every_codec_has_a_distinct_flag() {
        for codec in Codec::ALL {
            assert_eq!(codec_of_flags(flags_of_codec(codec)), Some(codec));
        }
        assert_eq!(codec_of_flags(3), None);
    }
}
