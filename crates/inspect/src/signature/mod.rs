//! Signatures: what crash a log tells of, so that two logs of one bug have the same.
//!
//! The first report of a log counts, since what follows is mostly its consequence. It is
//! collected line by line (`report`), its kind is looked up (`rules`), and the function to
//! blame is searched in its stacks (`blame`). The rules are data: `docs/signature.md` says how
//! to add one.

mod blame;
mod dump;
mod identify;
mod input;
mod pattern;
mod prefix;
mod report;
mod rules;
mod search;
mod stack;
mod title;

use std::io::{self, BufRead};

use serde::Serialize;

pub use dump::of_dump;
pub(crate) use input::for_each_line;
pub(crate) use prefix::writer_of;
pub use rules::RULES_VERSION;
pub use search::Search;

/// What crash it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The name of the crash for people: its kind and the blamed function, without numbers and
    /// addresses.
    pub title: String,
    /// Titles by which other checks would report the same. Two crashes are the same if one has
    /// a title or alternative title of the other.
    pub alternative_titles: Vec<String>,
    /// A hash of the kind, the blamed function and its module, as 32 hexadecimal digits; `None`
    /// if the report is corrupted.
    pub fingerprint: Option<String>,
    /// The blamed function and its callers, without functions that are never to blame:
    /// `function` or `function [module]`.
    pub frames: Vec<String>,
    /// True if parts of the report are missing, or those of another are mixed in, so that the
    /// title may be wrong.
    pub corrupted: bool,
    /// Version of the rules.
    pub rules_version: u32,
}

impl Signature {
    /// Reads a text log of any size; `None` if it tells of no crash.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn of_text(text: &mut dyn BufRead) -> io::Result<Option<Self>> {
        let mut search = Search::default();
        input::for_each_line(text, &mut |line| search.text_line(line))?;
        Ok(search.signature(&[]))
    }
}
