//! NUL-terminated strings for system calls, built without allocating.

use std::ffi::CStr;
use std::fmt::{self, Arguments, Write};

/// A NUL-terminated string of fewer than `N` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CStringBuf<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> CStringBuf<N> {
    /// Formats the arguments; `None` if the text does not fit.
    pub(crate) fn format(arguments: Arguments<'_>) -> Option<Self> {
        let mut text = Self {
            bytes: [0; N],
            length: 0,
        };
        text.write_fmt(arguments).ok()?;
        text.write_char('\0').ok()?;
        Some(text)
    }

    /// Returns the string up to its NUL.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl<const N: usize> Write for CStringBuf<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let free = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_none() {
        let text = |number: u32| CStringBuf::<8>::format(format_args!("a/{number}"));
        assert_eq!(text(12345).unwrap().as_c_str(), c"a/12345");
        assert_eq!(text(123_456), None);
    }
}
