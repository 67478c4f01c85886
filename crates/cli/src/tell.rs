//! Messages on standard error, and results on standard output.
//!
//! Names and texts out of a dump, file names and the kernel's messages are in most of them, and
//! must not control the terminal. So all text is printed by this module, which escapes it; raw
//! bytes and logs have writers of their own.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Prints a line on standard error and ignores errors: a dump must not end because the console
/// or a log's pipe is gone, as it would with `eprintln!`.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::tell::line(format_args!($($text)*))
    };
}

pub(crate) use tell;

/// Prints a line on standard error; see [`tell!`].
pub fn line(text: fmt::Arguments) {
    let _ = write_error(&format!("{text}\n"));
}

/// Prints text on standard error.
pub fn write_error(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(escaped(text).as_bytes())
}

/// Prints text on standard output. A reader that closed the pipe is not a failure.
pub fn write_output(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let result = out.write_all(escaped(text).as_bytes());
    match result.and_then(|()| out.flush()) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        result => result,
    }
}

/// Prints a result on standard output.
#[cfg(any(feature = "inspect", feature = "objects"))]
pub fn print(text: &str) -> anyhow::Result<()> {
    Ok(write_output(text)?)
}

/// Returns true if the reader of a pipe closed it, which is not a failure.
pub fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Escapes what could control a terminal or change the order of characters on it, except line
/// feeds and tabs: `\u001b`. In JSON, where such characters are in strings only, this is the
/// same string.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, |c| !matches!(c, '\n' | '\t') && is_control(c))
}

/// Escapes line feeds and tabs as well, for a text that must stay on its line.
#[cfg(feature = "inspect")]
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_control)
}

/// C0, DEL, C1, and the embeddings, overrides and isolates of bidirectional text.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            // All of them have at most four digits.
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_other_text_is_unchanged() {
        let harmless = "a line\n\tand änother \u{4e2d}\n";
        assert!(matches!(escaped(harmless), Cow::Borrowed(text) if text == harmless));
        let all = (0..0x20).chain(0x7f..0xa0).chain(0x202a..0x202f);
        for code in all
            .chain(0x2066..0x206a)
            .filter(|code| ![9, 10].contains(code))
        {
            let text = format!("x{}y", char::from_u32(code).unwrap());
            assert_eq!(escaped(&text), format!("x\\u{code:04x}y"));
        }
        assert_eq!(escaped("\u{1b}[31m\r\n"), "\\u001b[31m\\u000d\n");
    }

    #[test]
    fn escaped_json_has_the_same_strings() {
        let name = "a\u{1b}\u{7f}\u{9b}\u{202e}\"\\\n";
        let json = serde_json::to_string_pretty(&[name]).unwrap() + "\n";
        let shown = escaped(&json);
        assert!(!shown.contains(['\u{7f}', '\u{9b}', '\u{202e}']));
        let read: Vec<String> = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, [name]);
    }

    #[cfg(feature = "inspect")]
    #[test]
    fn text_on_one_line_has_no_line_feeds() {
        assert_eq!(on_one_line("a\nb\tc"), "a\\u000ab\\u0009c");
    }
}
