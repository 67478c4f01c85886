//! Page descriptors: where a page's data is and how it is compressed.

use crate::bytes::Endian;
use crate::codec::Codec;

/// Bytes of a page descriptor in the file.
pub const DESCRIPTOR_SIZE: usize = 24;

/// Where one page's data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageDescriptor {
    /// Offset of the data in the file; 0 if the page was lost.
    pub offset: u64,
    /// Size of the data, at most the page size.
    pub size: u32,
    /// How it is compressed: [`flags_of_codec`].
    pub flags: u32,
    /// `page->flags` of the page; no tool fills it.
    pub page_flags: u64,
}

impl PageDescriptor {
    /// Takes a descriptor from the front of `bytes`; `None` if they are too few.
    pub fn decode(bytes: &[u8], endian: Endian) -> Option<Self> {
        Some(Self {
            offset: endian.u64(bytes, 0)?,
            size: endian.u32(bytes, 8)?,
            flags: endian.u32(bytes, 12)?,
            page_flags: endian.u64(bytes, 16)?,
        })
    }

    /// The descriptor as the file holds it.
    pub fn encode(&self, endian: Endian) -> [u8; DESCRIPTOR_SIZE] {
        let mut bytes = [0; DESCRIPTOR_SIZE];
        endian.put_u64(&mut bytes, 0, self.offset);
        endian.put_u32(&mut bytes, 8, self.size);
        endian.put_u32(&mut bytes, 12, self.flags);
        endian.put_u64(&mut bytes, 16, self.page_flags);
        bytes
    }

    /// Whether the page's data never reached the file.
    pub fn is_lost(&self) -> bool {
        self.offset == 0
    }
}

/// The flag of a codec, in descriptors and in the header's status
/// (DUMP_DH_COMPRESSED_*, makedumpfile's diskdump_mod.h).
pub fn flags_of_codec(codec: Codec) -> u32 {
    match codec {
        Codec::None => 0,
        Codec::Zlib => 0x1,
        Codec::Lzo => 0x2,
        Codec::Snappy => 0x4,
        Codec::Zstd => 0x20,
    }
}

/// The codec that a descriptor's flags name; `None` if nobody knows them.
pub fn codec_of_flags(flags: u32) -> Option<Codec> {
    Codec::ALL
        .into_iter()
        .find(|codec| flags_of_codec(*codec) == flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_come_back_in_both_byte_orders() {
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
    fn every_codec_has_a_flag_of_its_own() {
        for codec in Codec::ALL {
            assert_eq!(codec_of_flags(flags_of_codec(codec)), Some(codec));
        }
        assert_eq!(codec_of_flags(3), None);
    }
}
