//! Titles: what a template's names stand for is put in, and what differs from one crash to the
//! next is taken out.

/// Maximum length in bytes: mixed lines can be very long.
const MAX_TITLE: usize = 120;
/// Digits from which on a decimal number is no part of a function's name.
const LONG_NUMBER: usize = 7;
/// Digits from which on a hexadecimal number is an address.
const ADDRESS: usize = 6;

/// Puts values into the places `{name}` of a template. A name without a value is one that the
/// report did not tell.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        text += before;
        let value = values.iter().find(|(known, _)| *known == name);
        text += value.map_or(UNTOLD, |(_, value)| value);
        rest = after;
    }
    text += rest;
    text
}

/// In place of a name that the report did not tell.
pub const UNTOLD: &str = "corrupted";

/// Replaces what differs from one crash to the next: addresses by ADDR, IP addresses by IP, line
/// numbers by LINE, other numbers by NUM; offsets in functions and the number of a CPU are
/// removed. The title is of printable ASCII, and at most 120 bytes long.
pub fn normalize(title: &str) -> String {
    let mut out = String::new();
    let mut rest = title;
    let mut before = '\0';
    while let Some(first) = rest.chars().next() {
        let at_word = !is_word(before);
        let taken = [
            at_word.then(|| ip_address(rest)).flatten(),
            (before != '\0' && !before.is_ascii_alphanumeric())
                .then(|| address(rest))
                .flatten(),
            at_word.then(|| number(rest)).flatten(),
            (!before.is_ascii_digit())
                .then(|| long_number(rest))
                .flatten(),
            line_number(rest),
            offset(rest),
            cpu(rest),
        ];
        if let Some((length, replacement)) = taken.into_iter().flatten().next() {
            out += replacement;
            before = rest[..length].chars().next_back().unwrap_or(before);
            rest = &rest[length..];
            continue;
        }
        out.push(first);
        before = first;
        rest = &rest[first.len_utf8()..];
    }
    printable(&out)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// `192.168.0.1`.
fn ip_address(text: &str) -> Option<(usize, &'static str)> {
    let mut length = 0;
    for index in 0..4 {
        let count = digits(&text[length..]);
        if !(1..=3).contains(&count) {
            return None;
        }
        length += count;
        if index < 3 {
            if !text[length..].starts_with('.') {
                return None;
            }
            length += 1;
        }
    }
    Some((length, "IP"))
}

/// `0xffff888012345678`, `ffff888012345678`.
fn address(text: &str) -> Option<(usize, &'static str)> {
    let prefix = if text.starts_with("0x") { 2 } else { 0 };
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let count = text[prefix..].bytes().take_while(hex).count();
    (count >= ADDRESS).then_some((prefix + count, "ADDR"))
}

/// A decimal number between other characters than those of words.
fn number(text: &str) -> Option<(usize, &'static str)> {
    let count = digits(text);
    let next = text[count..].chars().next();
    (count > 0 && !next.is_some_and(is_word)).then_some((count, "NUM"))
}

fn long_number(text: &str) -> Option<(usize, &'static str)> {
    let count = digits(text);
    (count >= LONG_NUMBER).then_some((count, "NUM"))
}

/// `.c:123`, `.c:123:45`; the file's ending stays.
fn line_number(text: &str) -> Option<(usize, &'static str)> {
    let ending = ["c:", "h:", "S:", "rs:"];
    let ending = ending.iter().find(|ending| text.starts_with(*ending))?;
    let count = digits(&text[ending.len()..]);
    let replacement = match *ending {
        "c:" => "c:LINE",
        "h:" => "h:LINE",
        "S:" => "S:LINE",
        _ => "rs:LINE",
    };
    (count > 0).then_some((ending.len() + count, replacement))
}

/// `+0x12/0x34`.
fn offset(text: &str) -> Option<(usize, &'static str)> {
    let hex = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let inner = text.strip_prefix("+0x")?;
    let first = hex(inner);
    let second = hex(inner[first..].strip_prefix("/0x")?);
    (first > 0 && second > 0).then_some((first + second + 6, ""))
}

/// `CPU#1`.
fn cpu(text: &str) -> Option<(usize, &'static str)> {
    let count = digits(text.strip_prefix("CPU#")?);
    (count > 0).then_some((count + 4, "CPU"))
}

fn printable(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes().take(MAX_TITLE) {
        let c = if byte == b'\t' { ' ' } else { char::from(byte) };
        let is_second_blank = c == ' ' && (out.is_empty() || out.ends_with(' '));
        if (' '..='~').contains(&c) && !is_second_blank {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns true if the time stamp of another line got into the title.
pub fn has_stamp(title: &str) -> bool {
    title.split('[').skip(1).any(|part| {
        let inner = part.split(']').next().unwrap_or_default().trim_start();
        part.contains(']')
            && inner.split_once('.').is_some_and(|(whole, fraction)| {
                let is_number =
                    |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                is_number(whole) && is_number(fraction)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_crash_to_crash_is_taken_out() {
        for (title, expected) in [
            ("a at addr ffff888012345678", "a at addr ADDR"),
            ("a at 0xdeadbeef, b", "a at ADDR, b"),
            (
                "kernel BUG at mm/slub.c:1234!",
                "kernel BUG at mm/slub.c:LINE!",
            ),
            ("in f+0x12/0x34 [ext4]", "in f [ext4]"),
            ("on CPU#3: 1,2,3", "on CPU: NUM,NUM,NUM"),
            ("peer 192.168.0.1", "peer IP"),
            (
                "in nl802154_add and x25_connect",
                "in nl802154_add and x25_connect",
            ),
            ("in deadbeefed", "in ADDR"),
            ("a\tb  c\u{7f}ä ", "a b c"),
        ] {
            assert_eq!(normalize(title), expected, "{title}");
        }
        assert_eq!(normalize(&"a b".repeat(100)).len(), MAX_TITLE);
    }

    #[test]
    fn names_are_put_into_a_template() {
        let values = [("kind", "K"), ("function", "f")];
        assert_eq!(fill("A: {kind} in {function}", &values), "A: K in f");
        assert_eq!(fill("in {function}", &[]), "in corrupted");
        assert_eq!(fill("{", &values), "corrupted");
    }

    #[test]
    fn stamp_in_a_title_is_noticed() {
        assert!(has_stamp("BUG: una[  12.345678] ble"));
        assert!(!has_stamp("BUG: [unmount of 9p] [1.x]"));
    }
}
