//! Reads a value member by member, so that a missing page affects only what lies in it.

use bigiron_format::bytes::Endian;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::types::{Encoding, Member, Shape, Type, TypeId, TypeTable, resolve, size_of};

use super::unread::why_unread;
use super::{Location, MemberValue, Number, RepeatedElement, Space, Value};
use crate::declaration::declaration;
use crate::error::InspectError;
use crate::program::Program;

/// Maximum nesting depth. Kernels stay below a tenth of it; a damaged table may be cyclic.
const MAX_DEPTH: usize = 32;
/// Maximum number of numbers, pointers and bytes of text in one value.
const MAX_VALUES: usize = 1 << 20;
/// Maximum length of a text that a pointer leads to.
const MAX_TEXT: usize = 256;

/// Limits for reading a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nesting depth of structs; anonymous ones do not count.
    pub depth: usize,
    /// Elements of an array, repetitions counting once; `None` for all of them, each listed.
    pub elements: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 4,
            elements: Some(200),
        }
    }
}

impl Location<'_> {
    /// Reads the value at the location; returns `None` if its type is unknown. Unreadable parts
    /// are marked as such.
    pub fn value(&self, program: &Program, limits: Limits) -> Option<Value> {
        let mut reader = Reader {
            program,
            types: self.types(),
            space: self.space,
            limits,
            left: MAX_VALUES,
        };
        let at = At {
            address: self.address.0,
            bits: self.bits,
        };
        Some(reader.value(self.type_id?, at, limits.depth, MAX_DEPTH))
    }
}

/// The location of a part of a value.
#[derive(Clone, Copy)]
struct At {
    address: u64,
    bits: Option<(u64, u64)>,
}

struct Reader<'r, 'k, 's> {
    program: &'r Program<'k, 's>,
    types: &'r dyn TypeTable,
    space: Space,
    limits: Limits,
    left: usize,
}

impl Reader<'_, '_, '_> {
    /// `depth` counts named structs only, `room` all levels.
    fn value(&mut self, id: TypeId, at: At, depth: usize, room: usize) -> Value {
        let found = self.part(id, at, depth, room);
        found.unwrap_or_else(|error| Value::Unread {
            reason: why_unread(&error),
        })
    }

    fn part(
        &mut self,
        id: TypeId,
        at: At,
        depth: usize,
        room: usize,
    ) -> Result<Value, InspectError> {
        if room == 0 {
            return Ok(unread("the types go in circles"));
        }
        let (id, found) = resolve(self.types, id)?;
        Ok(match found.shape {
            Shape::Struct(_) | Shape::Union(_) => return self.members(id, at, depth, room),
            Shape::Array(element, count) => {
                return self.array(element, count, at, depth, room);
            }
            Shape::Base(size) => self.base(id, &found, size, at)?,
            Shape::Enumeration(size) => {
                let bits = self.bits(at, size)?;
                let value = self.number(id, bits, size, at)?;
                let names = match self.left {
                    0 => Vec::new(),
                    _ => self.types.enumerators(id)?,
                };
                self.charge(names.len() / 8);
                let mask = mask(width(size, at));
                let same = |known: &i64| known.cast_unsigned() & mask == bits & mask;
                let name = names.into_iter().find(|(_, known)| same(known));
                Value::Enumeration {
                    value,
                    enumerator: name.map(|(name, _)| name),
                }
            }
            Shape::Pointer(to) => {
                let value = VirtAddr(self.bits(at, 8)?);
                let symbol = self.program.symbol_at(value).map(|found| found.to_string());
                self.charge(symbol.as_ref().map_or(0, String::len) / 64);
                Value::Pointer {
                    value,
                    symbol,
                    text: self.text_at(to, value),
                }
            }
            Shape::Void | Shape::Function | Shape::Declaration | Shape::Alias(_) => Value::Nothing,
        })
    }

    fn members(
        &mut self,
        id: TypeId,
        at: At,
        depth: usize,
        room: usize,
    ) -> Result<Value, InspectError> {
        let reason = format!("more than {MAX_VALUES} values");
        if self.left == 0 {
            return Ok(unread(&reason));
        }
        let all = self.types.members(id)?;
        // Before their values, since damage may end the loop early.
        self.charge(all.len());
        let mut members = Vec::new();
        for member in all {
            if self.left == 0 {
                members.push(member_value(&member, String::new(), unread(&reason)));
                break;
            }
            let is_open = member.name.is_none();
            let inner = At {
                address: at.address.wrapping_add(member.bit_offset / 8),
                bits: member.bit_size.map(|size| (member.bit_offset % 8, size)),
            };
            let value = if depth == 0 && !is_open && self.is_struct(member.type_id)? {
                Value::Deeper
            } else {
                let below = depth.saturating_sub(usize::from(!is_open));
                self.value(member.type_id, inner, below, room - 1)
            };
            let type_name = declaration(self.types, member.type_id, "")?;
            let name = member.name.as_ref().map_or(0, String::len);
            self.charge((type_name.len() + name) / 64);
            members.push(member_value(&member, type_name, value));
        }
        Ok(Value::Struct { members })
    }

    /// Takes from the remaining budget for expensive parts.
    fn charge(&mut self, parts: usize) {
        self.left = self.left.saturating_sub(parts);
    }

    /// Returns true for a struct, or an array of structs.
    fn is_struct(&self, mut id: TypeId) -> Result<bool, InspectError> {
        for _ in 0..MAX_DEPTH {
            let (_, found) = resolve(self.types, id)?;
            match found.shape {
                Shape::Array(element, _) => id = element,
                shape => return Ok(matches!(shape, Shape::Struct(_) | Shape::Union(_))),
            }
        }
        Ok(false)
    }

    fn array(
        &mut self,
        element: TypeId,
        count: u64,
        at: At,
        depth: usize,
        room: usize,
    ) -> Result<Value, InspectError> {
        let size = size_of(self.types, element)?.unwrap_or(0);
        let (_, found) = resolve(self.types, element)?;
        if is_character(&found) && count > 0 {
            return self.text(at.address, count);
        }
        let mut elements: Vec<RepeatedElement> = Vec::new();
        let most = self.limits.elements.unwrap_or(usize::MAX);
        for index in 0..count {
            let address = at.address.wrapping_add(index.wrapping_mul(size));
            if self.left == 0 || size == 0 {
                break;
            }
            self.left -= 1;
            let inner = At {
                address,
                bits: None,
            };
            let value = self.value(element, inner, depth, room - 1);
            let is_full = elements.len() >= most;
            match elements.last_mut() {
                Some(last) if self.limits.elements.is_some() && last.value == value => {
                    last.times += 1;
                }
                _ if is_full => break,
                _ => elements.push(RepeatedElement { times: 1, value }),
            }
        }
        Ok(Value::Array { count, elements })
    }

    /// Reads an array of characters. Memory after the NUL need not be readable.
    fn text(&mut self, address: u64, count: u64) -> Result<Value, InspectError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count && self.left > 0 {
            let at = address.wrapping_add(bytes.len() as u64);
            let len = (256 - (at & 255)).min(count - bytes.len() as u64) as usize;
            let mut piece = [0; 256];
            self.read(at, &mut piece[..len])?;
            self.charge(len);
            let end = piece[..len].iter().position(|byte| *byte == 0);
            bytes.extend_from_slice(&piece[..end.unwrap_or(len)]);
            if end.is_some() {
                break;
            }
        }
        Ok(Value::Text {
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    /// Reads the text that a pointer to characters leads to, if it looks like one.
    fn text_at(&mut self, to: TypeId, at: VirtAddr) -> Option<String> {
        let (_, found) = resolve(self.types, to).ok()?;
        if at.0 == 0 || !is_character(&found) {
            return None;
        }
        let text = self.program.string(at, MAX_TEXT).ok()?;
        self.charge(text.len());
        let is_printed = |c: char| !c.is_control() || c.is_whitespace();
        let looks_so = text.chars().all(|c| is_printed(c) && c != '\u{fffd}');
        looks_so.then_some(text)
    }

    fn base(&mut self, id: TypeId, found: &Type, size: u64, at: At) -> Result<Value, InspectError> {
        if size > 8 || (size == 0 && at.bits.is_none()) {
            let mut bytes = [0; 32];
            let len = size.min(32) as usize;
            self.read(at.address, &mut bytes[..len])?;
            let digits = bytes[..len].iter().map(|byte| format!("{byte:02x}"));
            return Ok(Value::Bytes {
                bytes: digits.collect(),
            });
        }
        let bits = self.bits(at, size)?;
        let value = match (found.name.as_deref(), size) {
            // Some compilers encode bool as a number of one byte.
            (Some("_Bool" | "bool"), 1) => Number::Boolean(bits != 0),
            _ => self.number(id, bits, size, at)?,
        };
        Ok(Value::Number { value })
    }

    fn number(&self, id: TypeId, bits: u64, size: u64, at: At) -> Result<Number, InspectError> {
        let width = width(size, at);
        let unused = 64 - width.clamp(1, 64);
        Ok(match self.types.encoding(id)? {
            Encoding::Signed => Number::Signed((bits << unused).cast_signed() >> unused),
            Encoding::Boolean => Number::Boolean(bits != 0),
            Encoding::Float if size == 4 => Number::Float(f64::from(f32::from_bits(bits as u32))),
            Encoding::Float if size == 8 => Number::Float(f64::from_bits(bits)),
            _ => Number::Unsigned(bits),
        })
    }

    /// Reads the bits of a number of up to 8 bytes, or of a bit field.
    fn bits(&self, at: At, size: u64) -> Result<u64, InspectError> {
        let endian = self.program.kernel().source().endian();
        let (first, width) = at.bits.unwrap_or((0, size.saturating_mul(8)));
        // A packed bit field may cross the bytes of its type.
        let len = first.saturating_add(width).div_ceil(8).clamp(1, 9) as usize;
        let mut bytes = [0; 16];
        self.read(at.address, &mut bytes[..len])?;
        let all = bytes[..len].iter();
        let join = |sum: u128, byte: &u8| sum << 8 | u128::from(*byte);
        let (word, shift) = match endian {
            Endian::Little => (all.rev().fold(0, join), first),
            Endian::Big => {
                let unused = (len as u64 * 8).saturating_sub(first.saturating_add(width));
                (all.fold(0, join), unused)
            }
        };
        let shifted = word.checked_shr(shift as u32).unwrap_or(0) as u64;
        Ok(shifted & mask(width))
    }

    fn read(&self, address: u64, buf: &mut [u8]) -> Result<(), InspectError> {
        match self.space {
            Space::Virtual => self.program.read("a value", VirtAddr(address), buf)?,
            Space::Physical => {
                let memory = self.program.kernel().memory();
                memory.read(PhysAddr(address), buf)?;
            }
        }
        Ok(())
    }
}

fn width(size: u64, at: At) -> u64 {
    at.bits.map_or(size.saturating_mul(8), |(_, bits)| bits)
}

fn mask(width: u64) -> u64 {
    match width {
        0 => 0,
        1..64 => u64::MAX >> (64 - width),
        _ => u64::MAX,
    }
}

fn member_value(member: &Member, type_name: String, value: Value) -> MemberValue {
    MemberValue {
        name: member.name.clone(),
        type_name,
        offset: member.bit_offset / 8,
        bits: member.bit_size.map(|size| (member.bit_offset % 8, size)),
        value,
    }
}

fn unread(reason: &str) -> Value {
    Value::Unread {
        reason: reason.to_owned(),
    }
}

/// Returns true for `char`, the type of text; `u8` and the like are numbers.
fn is_character(found: &Type) -> bool {
    found.shape == Shape::Base(1) && found.name.as_deref() == Some("char")
}
