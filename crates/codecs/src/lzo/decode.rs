//! The decoder: every read, write and back-reference is bounds-checked.

use super::stream::{FIRST_LITERALS, MAX_MIDDLE_DISTANCE};

/// Decoding errors.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The data does not fit into the destination.
    TooLong,
    /// The stream is invalid.
    Damaged(&'static str),
}

const CUT: Error = Error::Damaged("the stream ends before its end marker");
const BEFORE_START: Error = Error::Damaged("a match points before the start of the data");
const TRAILING: Error = Error::Damaged("bytes follow the end marker");

/// State left by the last instruction, which determines the meaning of a first byte below 16.
/// Up to 3 it is the number of literals.
const AFTER_RUN: usize = 4;

/// Decodes the stream `src` to the front of `dst`.
///
/// Bytes of `dst` behind the returned length may change as well.
pub fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize, Error> {
    let mut input = In { src, at: 0 };
    let mut out = Out { dst, len: 0 };
    let mut state = 0;
    match src.first() {
        Some(&first) if first > FIRST_LITERALS => {
            input.at = 1;
            let count = usize::from(first - FIRST_LITERALS);
            out.literals(&mut input, count)?;
            state = count.min(AFTER_RUN);
        }
        _ => {}
    }
    loop {
        let byte = usize::from(input.byte()?);
        let (distance, len, literals) = if byte >= 64 {
            let high = usize::from(input.byte()?);
            ((high << 3) + (byte >> 2 & 7) + 1, (byte >> 5) + 1, byte & 3)
        } else if byte >= 32 {
            let len = input.length(byte & 31, 31, out.room())? + 2;
            let low = input.pair()?;
            ((low >> 2) + 1, len, low & 3)
        } else if byte >= 16 {
            let len = input.length(byte & 7, 7, out.room())? + 2;
            let low = input.pair()?;
            let distance = MAX_MIDDLE_DISTANCE + ((byte & 8) << 11) + (low >> 2);
            if distance == MAX_MIDDLE_DISTANCE {
                return match input.at == src.len() {
                    true => Ok(out.len),
                    false => Err(TRAILING),
                };
            }
            (distance, len, low & 3)
        } else if state == 0 {
            let count = input.length(byte, 15, out.room())? + 3;
            out.literals(&mut input, count)?;
            state = AFTER_RUN;
            continue;
        } else {
            let near = (usize::from(input.byte()?) << 2) + (byte >> 2);
            match state {
                AFTER_RUN => (near + 2049, 3, byte & 3),
                _ => (near + 1, 2, byte & 3),
            }
        };
        out.copy(distance, len)?;
        if literals > 0 {
            out.literals(&mut input, literals)?;
        }
        state = literals;
    }
}

struct In<'a> {
    src: &'a [u8],
    at: usize,
}

impl In<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, Error> {
        let byte = *self.src.get(self.at).ok_or(CUT)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn pair(&mut self) -> Result<usize, Error> {
        Ok(usize::from(self.byte()?) | usize::from(self.byte()?) << 8)
    }

    /// Returns the length with field `field`. If that is 0 it continues in the next bytes,
    /// above `base`; counting stops beyond `room`.
    #[inline]
    fn length(&mut self, field: usize, base: usize, room: usize) -> Result<usize, Error> {
        if field != 0 {
            return Ok(field);
        }
        let mut len = base;
        loop {
            match self.byte()? {
                0 if len > room => return Err(Error::TooLong),
                0 => len += 255,
                last => return Ok(len + usize::from(last)),
            }
        }
    }
}

struct Out<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    #[inline]
    fn room(&self) -> usize {
        self.dst.len() - self.len
    }

    /// Copies the next `count` bytes of `input`.
    #[inline]
    fn literals(&mut self, input: &mut In<'_>, count: usize) -> Result<(), Error> {
        let from = &input.src[input.at..];
        let to = &mut self.dst[self.len..];
        match (from.first_chunk::<16>(), to.first_chunk_mut::<16>()) {
            (Some(wide), Some(front)) if count <= 16 => *front = *wide,
            _ => {
                let from = from.get(..count).ok_or(CUT)?;
                to.get_mut(..count)
                    .ok_or(Error::TooLong)?
                    .copy_from_slice(from);
            }
        }
        input.at += count;
        self.len += count;
        Ok(())
    }

    /// Copies `len` bytes from `distance` bytes back; the ranges may overlap.
    #[inline]
    fn copy(&mut self, distance: usize, len: usize) -> Result<(), Error> {
        if len > self.room() {
            return Err(Error::TooLong);
        }
        let from = self.len.checked_sub(distance).ok_or(BEFORE_START)?;
        let end = self.len + len;
        // What was copied may be copied again: the distance doubles with each step until it
        // covers the rest.
        while self.len < end {
            let count = (self.len - from).min(end - self.len);
            self.dst.copy_within(from..from + count, self.len);
            self.len += count;
        }
        Ok(())
    }
}
