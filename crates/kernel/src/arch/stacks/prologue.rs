//! The instructions of a function up to an address, which tell whether an interrupted function
//! has a frame of its own.

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
