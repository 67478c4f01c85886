//! Lines of a text log of any size.

use std::io::{self, BufRead};

/// Bytes of a line that count; the rest is passed over. The longest lines that matter name a
/// function behind a list of modules or a task's name.
pub const MAX_LINE: usize = 2048;

/// Passes the lines of a text to `each`, without their ends. Bytes that are not UTF-8 become
/// replacement characters. Memory does not grow with the text.
///
/// # Errors
///
/// The text cannot be read.
pub fn for_each_line(text: &mut dyn BufRead, each: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut line = Vec::with_capacity(MAX_LINE);
    loop {
        let buffer = match text.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            if !line.is_empty() {
                pass(&line, each);
            }
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&part[..part.len().min(MAX_LINE - line.len())]);
        let used = part.len() + usize::from(end.is_some());
        text.consume(used);
        if end.is_some() {
            pass(&line, each);
            line.clear();
        }
    }
}

fn pass(line: &[u8], each: &mut dyn FnMut(&str)) {
    let line = String::from_utf8_lossy(line);
    each(line.trim_end_matches(['\r', '\0']));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], buffer: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut reader = io::BufReader::with_capacity(buffer, text);
        for_each_line(&mut reader, &mut |line| found.push(line.to_owned())).unwrap();
        found
    }

    #[test]
    fn lines_do_not_depend_on_the_buffer() {
        let text = b"one\r\ntwo\n\nfour \xff\nlast";
        for buffer in [1, 2, 3, 64] {
            assert_eq!(
                lines(text, buffer),
                ["one", "two", "", "four \u{fffd}", "last"]
            );
        }
    }

    #[test]
    fn long_line_is_cut_and_the_next_is_whole() {
        let mut text = vec![b'x'; 3 * MAX_LINE];
        text.extend(b"\nnext\n");
        let found = lines(&text, 100);
        assert_eq!(found[0].len(), MAX_LINE);
        assert_eq!(found[1], "next");
    }
}
