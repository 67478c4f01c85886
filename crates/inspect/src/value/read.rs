//! Reading a value member by member, so that a page that is missing costs only what
//! is in it.

use bigiron_format::bytes::Endian;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::types::{Encoding, Member, Shape, Type, TypeId, TypeTable, resolve, size_of};
use bigiron_kernel::{KernelError, SourceError};

use super::{MemberValue, Number, Run, Space, Spot, Value};
use crate::declaration::declaration;
use crate::error::InspectError;
use crate::program::Program;

/// Structs in structs: no kernel has a tenth of it, and a damaged table may go in
/// circles.
const MOST_DEPTH: usize = 32;
/// Numbers and pointers in one value, and bytes of its texts.
const MOST_PARTS: usize = 1 << 20;
/// Bytes of a text that a pointer leads to.
const MOST_TEXT: usize = 256;

/// How much of a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Structs in structs; those without a name do not count.
    pub depth: usize,
    /// Elements of an array, equal ones together counting once; `None` for all of
    /// them, each by itself.
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

impl Spot<'_> {
    /// The value at the spot; `None` if its type is not known. What cannot be read
    /// is told in its place.
    pub fn value(&self, program: &Program, limits: Limits) -> Option<Value> {
        let mut reader = Reader {
            program,
            types: self.types(),
            space: self.space,
            limits,
            left: MOST_PARTS,
        };
        let at = At {
            address: self.address.0,
            bits: self.bits,
        };
        Some(reader.value(self.type_id?, at, limits.depth, MOST_DEPTH))
    }
}

/// Where a part of a value is.
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
    /// `depth` is that of the structs that were asked for, `room` the end of all.
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
                let names = self.types.enumerators(id)?;
                self.charge(names.len() / 64);
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
                Value::Pointer {
                    value,
                    symbol: self.program.symbol_at(value).map(|found| found.to_string()),
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
        let mut members = Vec::new();
        for member in self.types.members(id)? {
            if self.left == 0 {
                let reason = format!("more than {MOST_PARTS} values");
                members.push(member_value(&member, String::new(), unread(&reason)));
                break;
            }
            self.left -= 1;
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
            self.charge(type_name.len() / 64);
            members.push(member_value(&member, type_name, value));
        }
        Ok(Value::Struct { members })
    }

    /// Takes off what is left for what costs more than others.
    fn charge(&mut self, parts: usize) {
        self.left = self.left.saturating_sub(parts);
    }

    /// Whether it is a struct, or an array of them.
    fn is_struct(&self, mut id: TypeId) -> Result<bool, InspectError> {
        for _ in 0..MOST_DEPTH {
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
        let mut elements: Vec<Run> = Vec::new();
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
                _ => elements.push(Run { times: 1, value }),
            }
        }
        Ok(Value::Array { count, elements })
    }

    /// An array of characters. What is behind its NUL need not be there.
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

    /// The text that a pointer to characters leads to, if it looks like one.
    fn text_at(&mut self, to: TypeId, at: VirtAddr) -> Option<String> {
        let (_, found) = resolve(self.types, to).ok()?;
        if at.0 == 0 || !is_character(&found) {
            return None;
        }
        let text = self.program.string(at, MOST_TEXT).ok()?;
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
            // Encoded as a number of one byte where a compiler says so.
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

    /// The bits of a number of up to 8 bytes, or of a bit field.
    fn bits(&self, at: At, size: u64) -> Result<u64, InspectError> {
        let endian = self.program.kernel().source().endian();
        let (first, width) = at.bits.unwrap_or((0, size.saturating_mul(8)));
        // A bit field crosses the bytes of its type where it is packed.
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
        let kernel = self.program.kernel();
        match self.space {
            Space::Virtual => kernel.read("a value", VirtAddr(address), buf)?,
            Space::Physical => kernel.memory().read(PhysAddr(address), buf)?,
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

/// `char`, which texts are made of; `u8` and its like are numbers.
fn is_character(found: &Type) -> bool {
    found.shape == Shape::Base(1) && found.name.as_deref() == Some("char")
}

/// Why something could not be read, in few words.
pub fn why_unread(error: &InspectError) -> String {
    match error {
        InspectError::Kernel(KernelError::NotMapped { .. }) => "not mapped".into(),
        InspectError::Kernel(KernelError::Source(SourceError::Absent { frame, .. })) => {
            format!("page frame {frame} is not in the dump")
        }
        InspectError::Kernel(KernelError::Source(SourceError::Lost { frame, .. })) => {
            format!("page frame {frame} was lost when the dump was written")
        }
        other => other.to_string(),
    }
}
