//! A rule: an action, and what selects its pages.

use std::fmt::Write as _;

use super::toml::{self, Entry, Table, Value};
use crate::erase::{Command, Config};

/// Maximum size of a file of rules, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum number of rules: each may need memory for its page frames.
const MAX_RULES: usize = 32;

/// The keys of which a rule has exactly one.
const SELECTORS: [&str; 8] = [
    "physical",
    "node",
    "process",
    "slab-cache",
    "file-system",
    "cgroup",
    "pages",
    "bytes",
];

/// An error of a file of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RulesError {
    /// The line, counted from 1.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

/// What happens to the pages of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They are dumped, also against the dump level.
    Keep,
    /// They are not dumped.
    Drop,
    /// They are dumped without their contents, if the dump level keeps them.
    Blank,
}

impl Action {
    /// Its word in a file of rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Drop => "drop",
            Self::Blank => "blank",
        }
    }
}

/// A name, or with `*` at its end all names that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    pub(super) fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.0,
        }
    }
}

/// What selects the pages of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    /// Physical addresses, the first and the last.
    Physical(Vec<(u64, u64)>),
    /// A NUMA node.
    Node(u64),
    /// User memory of the processes of a name.
    Process(Pattern),
    /// The slabs of a cache.
    SlabCache(Pattern),
    /// The page cache of file systems: by type, or by the name of the device.
    FileSystem(Pattern),
    /// The memory of a memory cgroup, without its children.
    Cgroup(Pattern),
    /// The pages whose struct pages the objects of a command are.
    Pages(Command),
    /// The memory of the objects of a command.
    Bytes(Command),
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, or what selects its pages.
    pub name: String,
    /// What happens to its pages.
    pub action: Action,
    pub(super) selector: Selector,
}

/// The rules of a file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub(super) Vec<Rule>);

impl Rules {
    /// Parses a file of rules.
    pub fn parse(text: &[u8]) -> Result<Self, RulesError> {
        let first = |reason: String| RulesError { line: 1, reason };
        if text.len() > MAX_BYTES {
            return Err(first(format!("the file has more than {MAX_BYTES} bytes")));
        }
        let text = std::str::from_utf8(text).map_err(|error| first(error.to_string()))?;
        let tables =
            toml::parse(text, "rule").map_err(|(line, reason)| RulesError { line, reason })?;
        if tables.len() > MAX_RULES {
            return Err(first(format!("there are more than {MAX_RULES} rules")));
        }
        let rules: Result<_, _> = tables.iter().map(Rule::of).collect();
        Ok(Self(rules?))
    }

    /// The rules.
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }
}

impl Rule {
    fn of(table: &Table) -> Result<Self, RulesError> {
        let at = |line: usize, reason: String| RulesError { line, reason };
        let find = |key: &str| table.entries.iter().find(|entry| entry.key == key);
        let known =
            |key: &str| ["name", "action", "each"].contains(&key) || SELECTORS.contains(&key);
        if let Some(entry) = table.entries.iter().find(|entry| !known(&entry.key)) {
            let known = SELECTORS.join(", ");
            return Err(at(
                entry.line,
                format!(
                    "{} is no key of a rule: there are name, action, each, and {known}",
                    entry.key
                ),
            ));
        }
        let action = match find("action").map(|entry| (entry.line, &entry.value)) {
            Some((_, Value::Text(word))) if word == "keep" => Action::Keep,
            Some((_, Value::Text(word))) if word == "drop" => Action::Drop,
            Some((_, Value::Text(word))) if word == "blank" => Action::Blank,
            Some((line, _)) => {
                let words = "action is \"keep\", \"drop\" or \"blank\"";
                return Err(at(line, words.into()));
            }
            None => return Err(at(table.line, "the rule has no action".into())),
        };
        let mut selectors = table
            .entries
            .iter()
            .filter(|entry| SELECTORS.contains(&&*entry.key));
        let (Some(entry), None) = (selectors.next(), selectors.next()) else {
            let one = format!("a rule has one of {}", SELECTORS.join(", "));
            return Err(at(table.line, one));
        };
        let each = match find("each") {
            None => None,
            Some(each) if !matches!(&*entry.key, "pages" | "bytes") => {
                return Err(at(each.line, "each goes with pages or bytes".into()));
            }
            Some(each) => Some(loops_of(each)?),
        };
        let selector = match &*entry.key {
            "physical" => Selector::Physical(ranges(entry)?),
            "node" => match entry.value {
                Value::Number(node) => Selector::Node(node),
                _ => return Err(at(entry.line, "node is a number".into())),
            },
            "process" => Selector::Process(Pattern(text_of(entry)?)),
            "slab-cache" => Selector::SlabCache(Pattern(text_of(entry)?)),
            "file-system" => Selector::FileSystem(Pattern(text_of(entry)?)),
            "cgroup" => Selector::Cgroup(Pattern(text_of(entry)?)),
            "pages" => Selector::Pages(command(entry, each.as_deref())?),
            _ => Selector::Bytes(command(entry, each.as_deref())?),
        };
        let name = match find("name") {
            Some(entry) => text_of(entry)?,
            None => described(entry),
        };
        Ok(Self {
            name,
            action,
            selector,
        })
    }
}

fn wrong(entry: &Entry, reason: String) -> RulesError {
    let line = entry.line;
    RulesError { line, reason }
}

fn text_of(entry: &Entry) -> Result<String, RulesError> {
    match &entry.value {
        Value::Text(text) if !text.is_empty() && !text.contains('\n') => Ok(text.clone()),
        _ => Err(wrong(entry, format!("{} is a string in quotes", entry.key))),
    }
}

/// Returns the loops of `each`, the outermost first.
fn loops_of(entry: &Entry) -> Result<Vec<String>, RulesError> {
    match &entry.value {
        Value::List(loops) if !loops.is_empty() => Ok(loops.clone()),
        _ => text_of(entry).map(|only| vec![only]),
    }
}

/// Describes a rule without a name.
fn described(entry: &Entry) -> String {
    let mut text = entry.key.clone();
    let _ = match &entry.value {
        Value::Text(value) => write!(text, " {value}"),
        Value::Number(value) => write!(text, " {value}"),
        Value::List(values) => write!(text, " {}", values.join(" ")),
    };
    text
}

/// Parses ranges of physical addresses, both ends included, as in /proc/iomem.
fn ranges(entry: &Entry) -> Result<Vec<(u64, u64)>, RulesError> {
    let texts = match &entry.value {
        Value::Text(text) => std::slice::from_ref(text),
        Value::List(texts) => texts,
        Value::Number(_) => &[],
    };
    let range = |text: &String| {
        let (first, last) = text.split_once('-')?;
        let range = (toml::number(first.trim())?, toml::number(last.trim())?);
        (range.0 <= range.1).then_some(range)
    };
    let found: Option<Vec<_>> = texts.iter().map(range).collect();
    found.filter(|ranges| !ranges.is_empty()).ok_or_else(|| {
        let expected = "physical is \"FIRST-LAST\", addresses such as 0x100000000-0x1ffffffff";
        wrong(entry, expected.into())
    })
}

/// Parses what names objects, in the words of makedumpfile.conf(5): of each element of the innermost
/// of some loops, if there are any.
fn command(entry: &Entry, each: Option<&[String]>) -> Result<Command, RulesError> {
    let each = each.unwrap_or_default();
    let mut text = String::new();
    for list in each {
        let _ = write!(text, "for {list} ");
    }
    let _ = write!(text, "erase {}", text_of(entry)?);
    text.push_str(&" endfor".repeat(each.len()));
    let mut config = Config::parse(text.as_bytes());
    if let Some(problem) = config.problems.first() {
        return Err(wrong(entry, problem.text.clone()));
    }
    match (config.commands.pop(), config.commands.is_empty()) {
        (Some((_, command)), true) => Ok(command),
        _ => Err(wrong(
            entry,
            format!("{} names one kind of object", entry.key),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn rules_are_read_in_order() {
        let text = r#"
[[rule]]
name = "the database"
action = "keep"
process = "postgres*"

[[rule]]
action = "drop"
physical = ["0x1000-0x1fff", "8192-12287"]

[[rule]]
action = "drop"
each = "buffer in buffers:list_head within buffer:link"
bytes = "buffer.data size buffer.length"
"#;
        let rules = Rules::parse(text.as_bytes()).unwrap();
        let names: Vec<_> = rules
            .0
            .iter()
            .map(|rule| (&*rule.name, rule.action))
            .collect();
        assert_eq!(names[0], ("the database", Action::Keep));
        assert_eq!(names[1].0, "physical 0x1000-0x1fff 8192-12287");
        let ranges = vec![(0x1000, 0x1fff), (0x2000, 0x2fff)];
        assert_eq!(rules.0[1].selector, Selector::Physical(ranges));
        assert!(matches!(
            &rules.0[2].selector,
            Selector::Bytes(Command::Loop(_))
        ));
        let Selector::Process(pattern) = &rules.0[0].selector else {
            panic!("{rules:?}")
        };
        assert!(pattern.matches("postgres: io") && !pattern.matches("postgre"));
    }

    #[test]
    fn wrong_rules_are_refused_with_line_and_reason() {
        for (text, line, why) in [
            ("[[rule]]\nnode = 1", 1, "no action"),
            (
                "[[rule]]\naction = \"hide\"\nnode = 1",
                2,
                "\"keep\", \"drop\" or \"blank\"",
            ),
            ("[[rule]]\naction = \"drop\"", 1, "one of physical"),
            (
                "[[rule]]\naction = \"drop\"\nnode = 1\nprocess = \"x\"",
                1,
                "one of",
            ),
            ("[[rule]]\naction = \"drop\"\nnode = \"1\"", 3, "a number"),
            (
                "[[rule]]\naction = \"drop\"\nnote = 1",
                3,
                "no key of a rule",
            ),
            (
                "[[rule]]\naction = \"drop\"\nphysical = \"5-3\"",
                3,
                "FIRST-LAST",
            ),
            (
                "[[rule]]\naction = \"drop\"\nnode = 1\neach = \"x in y\"",
                4,
                "goes with",
            ),
            (
                "[[rule]]\naction = \"drop\"\neach = [\"x in y\", \"z in y\"]\npages = \"z\"",
                4,
                "unused iteration variable 'x'",
            ),
            (
                "[[rule]]\naction = \"drop\"\npages = \"size 4\"",
                3,
                "expected a symbol",
            ),
            (
                "[[rule]]\naction = \"drop\"\nbytes = \"a erase b\"",
                3,
                "one kind",
            ),
        ] {
            let error = Rules::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.reason.contains(why), "{text}: {error}");
        }
    }
}
