//! The instructions of a function up to an address, which tell whether an interrupted function
//! has a frame of its own.

use bigiron_format::bytes::Endian;

use super::StackReader;

/// Number of bytes at the start of a function that are searched for its prologue.
const MAX_PROLOGUE: u64 = 1024;
/// Number of bytes before an address that are searched for an epilogue.
const MAX_EPILOGUE: u64 = 16;

/// Instructions before an address.
#[derive(Debug, Default)]
pub struct Before {
    /// From the start of the function on.
    pub first: Vec<u8>,
    /// The last ones before the address, of the same function.
    pub last: Vec<u8>,
}

impl Before {
    /// Reads the instructions of the function at `ip` before `ip`. `None` if they are not
    /// known, or are a part that the compiler moved out of a function and that has no prologue.
    pub fn read(kernel: &dyn StackReader, ip: u64) -> Option<Self> {
        let function = kernel.function_at(ip)?;
        if function.name.contains(".cold") {
            return None;
        }
        let len = ip.checked_sub(function.start)?;
        let bytes = |at, len| {
            let mut bytes = vec![0; usize::try_from(len).ok()?];
            kernel.read("code", at, &mut bytes).ok()?;
            Some(bytes)
        };
        let last = len.min(MAX_EPILOGUE);
        Some(Self {
            first: bytes(function.start, len.min(MAX_PROLOGUE))?,
            last: bytes(ip - last, last)?,
        })
    }
}

/// A form of an instruction of 4 bytes: the bits that tell it, and their values.
#[derive(Clone, Copy, Debug)]
pub struct Form(pub u32, pub u32);

impl Form {
    fn has(self, instruction: u32) -> bool {
        instruction & self.0 == self.1
    }
}

/// The instructions that make and drop a frame, where all instructions have 4 bytes.
#[derive(Clone, Copy, Debug)]
pub struct FrameForms {
    /// Each makes the function's frame.
    pub make: &'static [Form],
    /// It drops the frame.
    pub drop: Form,
    /// Each leaves the function, so that what follows is a part of it which has its frame.
    pub leave: &'static [Form],
}

impl FrameForms {
    /// Returns true if the function interrupted at `ip` has a frame; true too if its code is
    /// not known.
    pub fn has_frame(&self, kernel: &dyn StackReader, ip: u64, endian: Endian) -> bool {
        let Some(code) = Before::read(kernel, ip) else {
            return true;
        };
        let instructions = |bytes: &[u8]| -> Vec<u32> {
            let words = bytes.chunks_exact(4);
            words.filter_map(|word| endian.u32(word, 0)).collect()
        };
        let any = |forms: &[Form], word: u32| forms.iter().any(|form| form.has(word));
        let was_made = instructions(&code.first)
            .into_iter()
            .any(|word| any(self.make, word));
        let dropped = instructions(&code.last)
            .into_iter()
            .rev()
            .take_while(|word| !any(self.leave, *word))
            .any(|word| self.drop.has(word));
        was_made && !dropped
    }
}
