//! The patterns of the rules.
//!
//! | part | matches |
//! |---|---|
//! | `*` | any text, as little as possible |
//! | `{name}` | a word: letters, digits, `_` and `-` |
//! | `{name*}` | any text, as little as possible; at the end of a pattern, the rest |
//! | `{name=one\|two}`, `(one\|two)` | one of several texts, the first that fits |
//! | `{function}` | a function's name before `.` or `+`, as in `schedule.isra.0+0x5e/0xe0` |
//! | `{source}` | a file and line: `mm/slub.c:123` |
//! | `{pc}`, `{pc?}` | `[<ffffffff81234567>]` and the blanks after it; the same, or nothing |
//! | `#` | digits |
//!
//! Other characters match themselves. A part that was matched is never matched in another way,
//! except by a later start of the text since the last `*`: the time is linear in the text for
//! each `*`, whatever the text.

/// The texts that the named parts of a pattern matched.
pub type Captures<'t> = Vec<(&'static str, &'t str)>;

/// Returns the captures of the first match of `pattern` anywhere in `text`.
pub fn find<'t>(pattern: &'static str, text: &'t str) -> Option<Captures<'t>> {
    run(pattern, text, Start::Anywhere, false)
}

/// Returns true if the pattern occurs in `text`.
pub fn occurs(pattern: &'static str, text: &str) -> bool {
    find(pattern, text).is_some()
}

/// Returns true if the whole of `text` matches the pattern.
pub fn is_match(pattern: &'static str, text: &str) -> bool {
    run(pattern, text, Start::Here, true).is_some()
}

/// Where a match may begin.
enum Start {
    Here,
    Anywhere,
}

/// A part of a pattern.
enum Part {
    Text(&'static str),
    Any(Option<&'static str>),
    Word(&'static str),
    OneOf(Option<&'static str>, &'static str),
    Function,
    Source,
    Address { required: bool },
    Digits,
}

/// Takes the first part off a pattern.
fn next_part(pattern: &'static str) -> Option<(Part, &'static str)> {
    let first = pattern.chars().next()?;
    let after = &pattern[first.len_utf8()..];
    Some(match first {
        '*' => (Part::Any(None), after),
        '#' => (Part::Digits, after),
        '(' => {
            let (inner, rest) = after.split_once(')')?;
            (Part::OneOf(None, inner), rest)
        }
        '{' => {
            let (inner, rest) = after.split_once('}')?;
            let part = match inner {
                "function" => Part::Function,
                "source" => Part::Source,
                "pc" => Part::Address { required: true },
                "pc?" => Part::Address { required: false },
                _ => match (inner.split_once('='), inner.strip_suffix('*')) {
                    (Some((name, texts)), _) => Part::OneOf(Some(name), texts),
                    (None, Some(name)) => Part::Any(Some(name)),
                    (None, None) => Part::Word(inner),
                },
            };
            (part, rest)
        }
        _ => {
            let end = pattern.find(['*', '#', '(', '{']).unwrap_or(pattern.len());
            (Part::Text(&pattern[..end]), &pattern[end..])
        }
    })
}

/// Matches the pieces between the `*` of a pattern, each as early as possible.
fn run<'t>(
    pattern: &'static str,
    text: &'t str,
    start: Start,
    whole: bool,
) -> Option<Captures<'t>> {
    let mut captures = Vec::new();
    let mut pattern = pattern;
    let mut at = 0;
    // What the current piece may skip: nothing, or text with a name.
    let mut skip: Option<Option<&'static str>> = match start {
        Start::Here => None,
        Start::Anywhere => Some(None),
    };
    loop {
        let is_last = piece_is_last(pattern);
        let (from, end, rest) = match skip {
            None => {
                let (end, rest) = piece(pattern, text, at, &mut captures)?;
                (at, end, rest)
            }
            // The end of a text that ends anywhere, or the rest of the text.
            Some(_) if pattern.is_empty() => (text.len(), text.len(), ""),
            Some(_) if whole && is_last => last_piece(pattern, text, at, &mut captures)?,
            Some(_) => search(pattern, text, at, &mut captures)?,
        };
        if let Some(Some(name)) = skip {
            captures.push((name, &text[at..from]));
        }
        at = end;
        pattern = rest;
        match next_part(pattern) {
            Some((Part::Any(name), after)) => {
                skip = Some(name);
                pattern = after;
            }
            _ => return (!whole || at == text.len()).then_some(captures),
        }
    }
}

/// Returns true if no `*` follows.
fn piece_is_last(mut pattern: &'static str) -> bool {
    while let Some((part, rest)) = next_part(pattern) {
        if matches!(part, Part::Any(_)) {
            return false;
        }
        pattern = rest;
    }
    true
}

/// Finds the first place from `at` on where the piece matches.
fn search<'t>(
    pattern: &'static str,
    text: &'t str,
    at: usize,
    captures: &mut Captures<'t>,
) -> Option<(usize, usize, &'static str)> {
    let known = captures.len();
    let mut from = at;
    loop {
        // A piece mostly begins with text, which is found faster than it is tried everywhere.
        if let Some((Part::Text(first), _)) = next_part(pattern) {
            from += text.get(from..)?.find(first)?;
        }
        if let Some((end, rest)) = piece(pattern, text, from, captures) {
            return Some((from, end, rest));
        }
        captures.truncate(known);
        from += step(pattern, text.get(from..)?)?;
    }
}

/// Returns the distance to the next place where the piece may match, after it did not at the
/// start of `text`. A name or path fails from each of its characters on if it does from one.
fn step(pattern: &'static str, text: &str) -> Option<usize> {
    let run = match next_part(pattern) {
        Some((Part::Function, _)) => run_of(text, is_name),
        Some((Part::Source, _)) => run_of(text, is_path),
        _ => None,
    };
    run.or_else(|| Some(text.chars().next()?.len_utf8()))
}

/// Finds the place from `at` on where the last piece matches up to the end of the text.
fn last_piece<'t>(
    pattern: &'static str,
    text: &'t str,
    at: usize,
    captures: &mut Captures<'t>,
) -> Option<(usize, usize, &'static str)> {
    let known = captures.len();
    let mut at = at;
    loop {
        let (from, end, rest) = search(pattern, text, at, captures)?;
        if end == text.len() {
            return Some((from, end, rest));
        }
        captures.truncate(known);
        at = from + text[from..].chars().next()?.len_utf8();
    }
}

/// Matches the parts up to the next `*`; returns the end of the match and the rest of the
/// pattern.
fn piece<'t>(
    mut pattern: &'static str,
    text: &'t str,
    mut at: usize,
    captures: &mut Captures<'t>,
) -> Option<(usize, &'static str)> {
    while let Some((part, rest)) = next_part(pattern) {
        let here = &text[at..];
        at += match part {
            Part::Any(_) => return Some((at, pattern)),
            Part::Text(fixed) => here.starts_with(fixed).then_some(fixed.len())?,
            Part::OneOf(name, texts) => {
                let found = texts.split('|').find(|text| here.starts_with(text))?;
                captures.extend(name.map(|name| (name, &here[..found.len()])));
                found.len()
            }
            Part::Word(name) => {
                let length = run_of(here, is_word)?;
                captures.push((name, &here[..length]));
                length
            }
            Part::Digits => run_of(here, |byte| byte.is_ascii_digit())?,
            Part::Function => {
                let length = function(here)?;
                captures.push(("function", &here[..length]));
                length
            }
            Part::Source => source(here)?,
            Part::Address { required } => match address(here) {
                Some(length) => length,
                None if required => return None,
                None => 0,
            },
        };
        pattern = rest;
    }
    Some((at, pattern))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_path(byte: u8) -> bool {
    is_word(byte) || b"/.".contains(&byte)
}

/// Returns the length of the bytes at the start of `text` that are `of` a class, at least one.
fn run_of(text: &str, of: impl Fn(u8) -> bool) -> Option<usize> {
    let length = text.bytes().take_while(|byte| of(*byte)).count();
    (length > 0).then_some(length)
}

/// Returns the length of the function's name at the start of `text`, which is followed by an
/// offset or a suffix of the compiler.
pub fn function(text: &str) -> Option<usize> {
    /// KSYM_NAME_LEN, include/linux/kallsyms.h.
    const LONGEST: usize = 512;
    let length = run_of(text, is_name).filter(|length| *length < LONGEST)?;
    matches!(text.as_bytes().get(length), Some(b'.' | b'+')).then_some(length)
}

/// Returns the length of `mm/slub.c:123`.
fn source(text: &str) -> Option<usize> {
    let path = run_of(text, is_path)?;
    let line = run_of(text[path..].strip_prefix(':')?, |byte| {
        byte.is_ascii_digit()
    })?;
    text[..path].contains('.').then_some(path + 1 + line)
}

/// Returns the length of an address in brackets, as older kernels print it before a function,
/// with the blanks after it.
pub fn address(text: &str) -> Option<usize> {
    /// `<0x` and `>` around 16 digits.
    const LONGEST: usize = 20;
    let inner = text.strip_prefix('[')?;
    let length = inner
        .bytes()
        .take(LONGEST + 1)
        .position(|byte| byte == b']')?;
    let number = &inner[..length];
    let digits = number.trim_start_matches('<').trim_end_matches('>');
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let end = number.len() + 2;
    let blanks = run_of(&text[end..], |byte| byte == b' ')?;
    Some(end + blanks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_match_what_they_stand_for() {
        let text = "BUG: KASAN: use-after-free in foo.isra.0+0x12/0x34 at addr";
        assert_eq!(
            find("KASAN: {kind} in {function}", text),
            Some(vec![("kind", "use-after-free"), ("function", "foo")])
        );
        assert_eq!(
            find("BUG: {what*} in *0x# at", "BUG: a b in c+0x12 at"),
            Some(vec![("what", "a b")])
        );
        assert_eq!(
            find("{access=Read|Write} of size #", "by a Write of size 8 by"),
            Some(vec![("access", "Write")])
        );
        assert_eq!(
            find("panic: {why*}", "Kernel panic: x y"),
            Some(vec![("why", "x y")])
        );
        for lock in ["at: [<ffffffff8123>] f+0x1/0x2", "at: f+0x1/0x2"] {
            assert_eq!(
                find("at: {pc?}{function}", lock),
                Some(vec![("function", "f")])
            );
        }
        assert!(!occurs("at: {pc}{function}", "at: f+0x1/0x2"));
        assert!(occurs(
            " at {source} ",
            "CPU: 1 PID: 2 at mm/slub.c:12 f+0x1"
        ));
        assert!(!occurs("{function}", "no function"));
    }

    #[test]
    fn whole_names_are_matched_from_end_to_end() {
        for (pattern, name) in [
            ("kfree", "kfree"),
            ("mutex_*", "mutex_lock"),
            ("*kasan*", "__kasan_report"),
            ("*readb", "__raw_readb"),
            ("*_(read|write)_once", "kcsan_read_once"),
            ("*ab", "abab"),
        ] {
            assert!(is_match(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("kfree", "kfree_skb"),
            ("mutex_*", "__mutex_lock"),
            ("*readb", "readbyte"),
            ("*a(b|c)", "ab_"),
        ] {
            assert!(!is_match(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn text_of_many_bytes_is_searched_at_every_character() {
        assert!(occurs("{function}", "ä ü foo+0x1"));
        assert!(is_match("*+*", "ä+ü"));
        assert_eq!(find("*x", "äöü"), None);
    }
}
