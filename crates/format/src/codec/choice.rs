//! Codecs and levels, as named on a command line.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{CodecError, Compressor, lzo, snappy, stored, zlib, zstd};

/// A codec for the pages of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No compression.
    None,
    /// Deflate in a zlib container.
    Zlib,
    /// LZO1X.
    Lzo,
    /// Snappy without framing.
    Snappy,
    /// One Zstandard frame per page.
    Zstd,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Codec; 5] = [
        Codec::None,
        Codec::Zlib,
        Codec::Lzo,
        Codec::Snappy,
        Codec::Zstd,
    ];

    /// Name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Zlib => "zlib",
            Codec::Lzo => "lzo",
            Codec::Snappy => "snappy",
            Codec::Zstd => "zstd",
        }
    }

    /// Supported levels; `None` for a codec without levels.
    pub fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Codec::None | Codec::Lzo | Codec::Snappy => None,
            Codec::Zlib => Some(zlib::LEVELS),
            Codec::Zstd => Some(zstd::levels()),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Codec {
    type Err = CodecError;

    fn from_str(name: &str) -> Result<Self, CodecError> {
        Self::ALL
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| CodecError::Unknown { name: name.into() })
    }
}

/// A codec with its level, written `zstd`, `zstd:3` or `zstd:-3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// The level; 0 for a codec without levels.
    pub level: i32,
}

impl Compression {
    /// `codec` at its default level, the fast one, since a crashed machine waits for the dump.
    pub fn new(codec: Codec) -> Self {
        let level = match codec {
            Codec::None | Codec::Lzo | Codec::Snappy => 0,
            Codec::Zlib | Codec::Zstd => 1,
        };
        Self { codec, level }
    }

    /// `codec` at `level`, if it has that level.
    pub fn with_level(codec: Codec, level: i32) -> Result<Self, CodecError> {
        match codec.levels() {
            None => Err(CodecError::NoLevels {
                codec: codec.name(),
            }),
            Some(levels) if levels.contains(&level) => Ok(Self { codec, level }),
            Some(_) => Err(no_such_level(codec, &level.to_string())),
        }
    }

    /// Creates a compressor, for use by one thread.
    pub fn compressor(self) -> Result<Box<dyn Compressor>, CodecError> {
        if self != Self::new(self.codec) {
            // The fields are public, so the level may be unchecked.
            Self::with_level(self.codec, self.level)?;
        }
        Ok(match self.codec {
            Codec::None => Box::new(stored::Stored),
            Codec::Zlib => Box::new(zlib::ZlibCompressor::new(self.level)?),
            Codec::Lzo => Box::new(lzo::LzoCompressor::new()),
            Codec::Snappy => Box::new(snappy::SnappyCompressor::new()),
            Codec::Zstd => Box::new(zstd::ZstdCompressor::new(self.level)?),
        })
    }

    /// Creates a compressor of the codec's library where [`compressor`](Self::compressor) uses
    /// our own encoder, for comparison.
    ///
    /// Returns `None` where the library compresses the dumps too, and for LZO, which has no
    /// library with a permissive licence.
    pub fn library_compressor(self) -> Result<Option<Box<dyn Compressor>>, CodecError> {
        Ok(match self.codec {
            Codec::Zlib if self == Self::new(Codec::Zlib) => {
                Some(Box::new(zlib::ZlibCompressor::library(self.level)?))
            }
            _ => None,
        })
    }

    /// Approximate memory of one compressor for blocks of up to 64 KiB, in bytes.
    pub fn context_bytes(self) -> usize {
        match self.codec {
            Codec::None => 0,
            Codec::Zlib => zlib::context_bytes(self.level),
            Codec::Lzo => lzo::CONTEXT_BYTES,
            Codec::Snappy => snappy::CONTEXT_BYTES,
            Codec::Zstd => zstd::context_bytes(self.level),
        }
    }
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        Self::new(codec)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.codec.levels() {
            None => self.codec.fmt(f),
            Some(_) => write!(f, "{}:{}", self.codec, self.level),
        }
    }
}

impl FromStr for Compression {
    type Err = CodecError;

    fn from_str(text: &str) -> Result<Self, CodecError> {
        let Some((name, level)) = text.split_once(':') else {
            return Ok(Self::new(text.parse()?));
        };
        let codec: Codec = name.parse()?;
        match level.parse() {
            Ok(number) => Self::with_level(codec, number),
            Err(_) => Err(no_such_level(codec, level)),
        }
    }
}

fn no_such_level(codec: Codec, level: &str) -> CodecError {
    match codec.levels() {
        None => CodecError::NoLevels {
            codec: codec.name(),
        },
        Some(levels) => CodecError::Level {
            codec: codec.name(),
            level: level.into(),
            min: *levels.start(),
            max: *levels.end(),
        },
    }
}
