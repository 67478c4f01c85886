//! Formats values like C initialisers.

use std::fmt::Write as _;

use super::{MemberValue, Number, RepeatedElement, Value};

/// Width of an array of numbers, in columns.
const WIDTH: usize = 100;
/// Numbers from here on are also shown in hexadecimal.
const LARGE: u64 = 0x1_0000;
/// Minimum number of equal elements that are shown as one.
const REPEATS: u64 = 3;

impl Value {
    /// Formats the value: a struct takes several lines, one per member.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.put(&mut out, 0);
        out
    }

    fn put(&self, out: &mut String, depth: usize) {
        let _ = match self {
            Self::Number { value } => write!(out, "{}", number(*value)),
            Self::Enumeration { value, enumerator } => match enumerator {
                Some(name) => write!(out, "{}", printable(name)),
                None => write!(out, "{}", number(*value)),
            },
            Self::Pointer {
                value,
                symbol,
                text,
            } => {
                let _ = write!(out, "{:#x}", value.0);
                if let Some(symbol) = symbol {
                    let _ = write!(out, " <{}>", printable(symbol));
                }
                match text {
                    Some(text) => write!(out, " {}", quoted(text)),
                    None => Ok(()),
                }
            }
            Self::Text { text } => write!(out, "{}", quoted(text)),
            Self::Bytes { bytes } => write!(out, "<bytes {bytes}>"),
            Self::Nothing => write!(out, "<no data>"),
            Self::Deeper => write!(out, "{{...}}"),
            Self::Unread { reason } => write!(out, "<{}>", printable(reason)),
            Self::Array { count, elements } => {
                array(out, *count, elements, depth);
                Ok(())
            }
            Self::Struct { members } => {
                out.push_str("{\n");
                for member in members {
                    put_member(out, member, depth + 1);
                }
                indent(out, depth);
                write!(out, "}}")
            }
        };
    }

    /// Returns true if it takes several lines.
    fn is_long(&self) -> bool {
        match self {
            Self::Struct { .. } => true,
            Self::Array { elements, .. } => elements.iter().any(|run| run.value.is_long()),
            _ => false,
        }
    }
}

fn put_member(out: &mut String, member: &MemberValue, depth: usize) {
    indent(out, depth);
    if let Some(name) = &member.name {
        let _ = write!(out, ".{} = ", printable(name));
    }
    member.value.put(out, depth);
    out.push_str(",\n");
}

fn array(out: &mut String, count: u64, elements: &[RepeatedElement], depth: usize) {
    let shown: u64 = elements.iter().map(|run| run.times).sum();
    let more = count.saturating_sub(shown);
    if elements.iter().any(|run| run.value.is_long()) {
        out.push_str("{\n");
        let mut index = 0;
        for run in elements {
            let last = index + run.times - 1;
            indent(out, depth + 1);
            let _ = match run.times {
                1 => write!(out, "[{index}] = "),
                _ => write!(out, "[{index} ... {last}] = "),
            };
            run.value.put(out, depth + 1);
            out.push_str(",\n");
            index = last + 1;
        }
        if more > 0 {
            indent(out, depth + 1);
            let _ = writeln!(out, "<{more} more>");
        }
        indent(out, depth);
        out.push('}');
        return;
    }
    let mut parts = Vec::new();
    for run in elements {
        let text = run.value.text();
        match run.times {
            times @ REPEATS.. => parts.push(format!("{text} <repeats {times} times>")),
            times => parts.extend((0..times).map(|_| text.clone())),
        }
    }
    if more > 0 {
        parts.push(format!("<{more} more>"));
    }
    let columns: usize = parts.iter().map(|part| part.len() + 2).sum();
    if columns <= WIDTH {
        let _ = write!(out, "{{{}}}", parts.join(", "));
        return;
    }
    out.push('{');
    let mut column = WIDTH;
    for part in &parts {
        if column + part.len() + 2 > WIDTH {
            out.push('\n');
            indent(out, depth + 1);
            column = 0;
        }
        let _ = write!(out, "{part}, ");
        column += part.len() + 2;
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    indent(out, depth);
    out.push('}');
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("    ", depth));
}

fn number(value: Number) -> String {
    match value {
        Number::Signed(value) => value.to_string(),
        Number::Unsigned(value @ LARGE..) => format!("{value} ({value:#x})"),
        Number::Unsigned(value) => value.to_string(),
        Number::Boolean(value) => value.to_string(),
        Number::Float(value) => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Removes terminal control characters from a name in the dump.
fn printable(text: &str) -> String {
    let one = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bigiron_format::VirtAddr;

    fn run(times: u64, value: u64) -> RepeatedElement {
        let value = Value::Number {
            value: Number::Unsigned(value),
        };
        RepeatedElement { times, value }
    }

    fn member(name: &str, value: Value) -> MemberValue {
        MemberValue {
            name: (!name.is_empty()).then(|| name.to_owned()),
            type_name: "int".into(),
            offset: 0,
            bits: None,
            value,
        }
    }

    #[test]
    fn equal_elements_are_shown_once_and_omitted_ones_counted() {
        let array = |count, elements| Value::Array { count, elements }.text();
        assert_eq!(array(3, vec![run(2, 7), run(1, 8)]), "{7, 7, 8}");
        let long = array(90, vec![run(16, 0), run(1, 0x1_0000)]);
        assert_eq!(long, "{0 <repeats 16 times>, 65536 (0x10000), <73 more>}");
        let broken = array(40, (0..40).map(|n| run(1, n + 1000)).collect());
        let longest = broken.lines().map(str::len).max();
        assert!(longest <= Some(WIDTH + 4), "{broken}");
        assert_eq!(broken.lines().count(), 5, "{broken}");
    }

    #[test]
    fn struct_takes_several_lines_and_control_characters_are_removed() {
        let pointer = Value::Pointer {
            value: VirtAddr(0xffff_0000),
            symbol: Some("name+0x10 [mod]".into()),
            text: Some("a\u{1b}b\"".into()),
        };
        let unread = Value::Unread {
            reason: "not mapped".into(),
        };
        let inner = Value::Struct {
            members: vec![member("a\u{1b}", unread)],
        };
        let outer = Value::Struct {
            members: vec![member("p", pointer), member("", inner)],
        };
        let expected = "{\n    .p = 0xffff0000 <name+0x10 [mod]> \"a\\u{1b}b\\\"\",\n    {\n        \
                        .a\u{fffd} = <not mapped>,\n    },\n}";
        assert_eq!(outer.text(), expected);
    }
}
