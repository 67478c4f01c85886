//! Reads the part of TOML that rules use: tables of one array, whose values are strings, integers
//! and arrays of strings.

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    List(Vec<String>),
}

/// A key, its value, and their line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Value,
}

/// A table of the array, with the line of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) line: usize,
    pub(super) entries: Vec<Entry>,
}

/// Returns the tables `[[name]]` of `text`; an error has its line, counted from 1.
pub(super) fn parse(text: &str, name: &str) -> Result<Vec<Table>, (usize, String)> {
    let mut tables: Vec<Table> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let wrong = |what: String| (number, what);
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(header) = content.strip_prefix("[[") {
            let (found, rest) = header
                .split_once("]]")
                .ok_or_else(|| wrong(format!("expected [[{name}]]")))?;
            if found.trim() != name || !is_end(rest) {
                return Err(wrong(format!("expected [[{name}]], found {content}")));
            }
            tables.push(Table {
                line: number,
                entries: Vec::new(),
            });
            continue;
        }
        let (key, rest) = content
            .split_once('=')
            .ok_or_else(|| wrong(format!("expected [[{name}]] or KEY = VALUE")))?;
        let key = key.trim();
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if key.is_empty() || !key.chars().all(is_bare) {
            return Err(wrong(format!(
                "{key} is no key of letters, digits, - and _"
            )));
        }
        let (value, rest) = match rest.trim_start().strip_prefix('[') {
            Some(rest) => array(rest, number, &mut lines)?,
            None => value(rest.trim_start()).map_err(wrong)?,
        };
        if !is_end(rest) {
            return Err(wrong(format!("expected the end of the line, found {rest}")));
        }
        let Some(table) = tables.last_mut() else {
            return Err(wrong(format!("{key} is before the first [[{name}]]")));
        };
        if table.entries.iter().any(|entry| entry.key == key) {
            return Err(wrong(format!("{key} is given twice")));
        }
        table.entries.push(Entry {
            line: number,
            key: key.to_owned(),
            value,
        });
    }
    Ok(tables)
}

fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

/// Returns the array whose `[` is before `rest`, on the line `number`, and what follows it on the
/// line where it ends.
fn array<'t>(
    rest: &'t str,
    number: usize,
    lines: &mut impl Iterator<Item = (usize, &'t str)>,
) -> Result<(Value, &'t str), (usize, String)> {
    let (mut rest, mut number) = (rest, number);
    let mut list = Vec::new();
    let mut is_separated = true;
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix(']') {
            return Ok((Value::List(list), rest));
        }
        if is_end(rest) {
            let unended = || (number, "an array of strings does not end".to_owned());
            let (index, line) = lines.next().ok_or_else(unended)?;
            (number, rest) = (index + 1, line);
        } else if let (false, Some(behind)) = (is_separated, rest.strip_prefix(',')) {
            (rest, is_separated) = (behind, true);
        } else if is_separated {
            let (found, behind) = string(rest).map_err(|reason| (number, reason))?;
            list.push(found);
            (rest, is_separated) = (behind, false);
        } else {
            let reason = "expected , or ] in an array of strings".to_owned();
            return Err((number, reason));
        }
    }
}

/// Returns the value at the start of `text`, and what follows it.
fn value(text: &str) -> Result<(Value, &str), String> {
    if text.starts_with(['"', '\'']) {
        let (found, rest) = string(text)?;
        return Ok((Value::Text(found), rest));
    }
    let end = text
        .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    match number(word) {
        Some(found) => Ok((Value::Number(found), rest)),
        None => Err(format!(
            "expected a string in quotes, a number, or an array of strings, found {text}"
        )),
    }
}

/// Returns the string in quotes at the start of `text`, and what follows it.
fn string(text: &str) -> Result<(String, &str), String> {
    let unended = || "a string does not end on its line".to_owned();
    if let Some(rest) = text.strip_prefix('\'') {
        let (found, rest) = rest.split_once('\'').ok_or_else(unended)?;
        return Ok((found.to_owned(), rest));
    }
    let rest = text
        .strip_prefix('"')
        .ok_or_else(|| format!("expected a string in quotes, found {text}"))?;
    let mut found = String::new();
    let mut letters = rest.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((found, &rest[at + 1..])),
            '\\' => match letters.next() {
                Some((_, escaped @ ('"' | '\\'))) => found.push(escaped),
                _ => return Err("after \\ only \" and \\ are known".into()),
            },
            _ => found.push(letter),
        }
    }
    Err(unended())
}

/// Returns a decimal or hexadecimal number.
pub(super) fn number(word: &str) -> Option<u64> {
    let digits = word.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn strings_numbers_and_arrays_are_read() {
        let text = "# rules\n\n[[rule]] # one\na = \"x \\\"#\\\\\" # comment\nb-2=0x1_0\n  c = ['p', # first\n\n \"q\",\n] # end\n[[rule]]\n";
        let tables = parse(text, "rule").unwrap();
        assert_eq!(tables.len(), 2);
        let values: Vec<_> = tables[0].entries.iter().map(|entry| &entry.value).collect();
        let list = Value::List(vec!["p".into(), "q".into()]);
        let expected = [&Value::Text("x \"#\\".into()), &Value::Number(16), &list];
        assert_eq!(values, expected);
        assert_eq!((tables[0].line, tables[0].entries[1].line), (3, 5));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (text, line, why) in [
            ("a = 1", 1, "before the first"),
            ("[[rule]]\na", 2, "KEY = VALUE"),
            ("[[rules]]", 1, "expected [[rule]]"),
            ("[rule]", 1, "KEY = VALUE"),
            ("[[rule]]\n\na = true", 3, "expected a string"),
            ("[[rule]]\na = \"x", 2, "does not end"),
            ("[[rule]]\na = \"\\n\"", 2, "after \\"),
            ("[[rule]]\na = ['x' 'y']", 2, "expected , or ]"),
            ("[[rule]]\na = ['x',\n, 'y']", 3, "expected a string"),
            ("[[rule]]\na = [\n'x'\n", 3, "does not end"),
            ("[[rule]]\na = ['x'\n] 1", 2, "end of the line"),
            ("[[rule]]\na = 1 2", 2, "end of the line"),
            ("[[rule]]\na = 1\na = 2", 3, "twice"),
            ("[[rule]]\na.b = 1", 2, "no key"),
        ] {
            let (found, message) = parse(text, "rule").unwrap_err();
            assert_eq!(found, line, "{text}: {message}");
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
