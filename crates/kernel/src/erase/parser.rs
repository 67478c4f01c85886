//! Parses words into commands.

use super::command::{Amount, Command, Erase, Expression, Link, Loop, Problem};

const KEYWORDS: [&str; 7] = ["erase", "size", "nullify", "for", "in", "within", "endfor"];
/// Maximum number of loops in each other.
const MAX_DEPTH: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) line: usize,
    /// True for the first word of a line.
    pub(super) first: bool,
    pub(super) text: &'a str,
}

pub(super) struct Parser<'a> {
    pub(super) words: &'a [Word<'a>],
    pub(super) next: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn command(&mut self) -> Result<Command, Problem> {
        if self.take("erase") {
            self.erase(None).map(Command::Erase)
        } else if self.take("for") {
            self.for_loop(None, 1).map(Command::Loop)
        } else {
            let word = self.peek().map_or("", |word| word.text);
            Err(self.problem(format!("invalid token '{word}'")))
        }
    }

    fn erase(&mut self, id: Option<&str>) -> Result<Erase, Problem> {
        let line = self.line();
        let word = self.name("expected a symbol after 'erase'")?;
        let target = self.expression(word)?;
        if let Some(id) = id
            && target.symbol != id
        {
            return Err(self.problem(format!("unused iteration variable '{id}'")));
        }
        let amount = if self.take("nullify") {
            Amount::Nullify
        } else if self.take("size") {
            let word = self.name("expected a size after 'size'")?;
            if word.starts_with(|c: char| c.is_ascii_digit()) {
                let bytes = bytes(word);
                Amount::Bytes(bytes.ok_or_else(|| self.problem(format!("invalid size '{word}'")))?)
            } else {
                Amount::Variable(self.expression(word)?)
            }
        } else {
            Amount::ByType
        };
        Ok(Erase {
            line,
            target,
            amount,
        })
    }

    /// Parses a loop; `outer` is the variable of the loop around it, and `depth` counts both.
    fn for_loop(&mut self, outer: Option<&str>, depth: usize) -> Result<Loop, Problem> {
        let line = self.line();
        let id = self.name("expected a variable after 'for'")?;
        if id.contains(['.', ':']) {
            return Err(self.problem("invalid iteration variable".into()));
        }
        if !self.take("in") {
            return Err(self.problem("expected 'in'".into()));
        }
        let word = self.name("expected a list after 'in'")?;
        let list = self.expression(word)?;
        if let Some(outer) = outer
            && list.symbol != outer
        {
            return Err(self.problem(format!("unused iteration variable '{outer}'")));
        }
        let link = if self.take("via") {
            Link::Via(self.name("expected a member after 'via'")?.to_owned())
        } else if self.take("within") {
            let word = self.name("expected a struct after 'within'")?;
            let (name, member) = match word.split_once(':') {
                Some((name, member)) => (name, Some(member)),
                None => (word, None),
            };
            if member == Some("") {
                return Err(self.problem("expected a member of type list_head after ':'".into()));
            }
            if name.is_empty() {
                return Err(self.problem("expected STRUCT:MEMBER after 'within'".into()));
            }
            Link::Within(name.to_owned(), member.map(str::to_owned))
        } else if self.take("per-cpu") {
            Link::PerCpu
        } else {
            Link::Unspecified
        };
        let mut body = Vec::new();
        let mut inner = None;
        if self.take("for") {
            if depth == MAX_DEPTH {
                return Err(self.problem(format!("more than {MAX_DEPTH} loops in each other")));
            }
            inner = Some(Box::new(self.for_loop(Some(id), depth + 1)?));
        }
        while !self.take("endfor") {
            if inner.is_none() && self.take("erase") {
                body.push(self.erase(Some(id))?);
                continue;
            }
            return Err(match self.peek() {
                Some(word) => self.problem(format!("invalid token '{}'", word.text)),
                None => self.problem("'for' without 'endfor'".into()),
            });
        }
        Ok(Loop {
            line,
            id: id.to_owned(),
            list,
            link,
            body,
            inner,
        })
    }

    fn expression(&self, word: &str) -> Result<Expression, Problem> {
        let mut parts = word.split('.').filter(|part| !part.is_empty());
        let first = parts.next().unwrap_or_default();
        let (symbol, written_type) = match first.split_once(':') {
            Some((symbol, written)) => (symbol, Some(written.to_owned())),
            None => (first, None),
        };
        if symbol.is_empty() || written_type.as_deref() == Some("") {
            return Err(self.problem(format!("invalid token '{word}'")));
        }
        Ok(Expression {
            text: word.to_owned(),
            symbol: symbol.to_owned(),
            written_type,
            members: parts.map(str::to_owned).collect(),
        })
    }

    fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == wanted);
        self.next += usize::from(found);
        found
    }

    /// Returns the next word, which must not be a keyword.
    fn name(&mut self, missing: &str) -> Result<&'a str, Problem> {
        match self.peek() {
            Some(word) if !KEYWORDS.contains(&word.text) => {
                self.next += 1;
                Ok(word.text)
            }
            _ => Err(self.problem(missing.to_owned())),
        }
    }

    /// The line of the last word returned.
    fn line(&self) -> usize {
        let last = self.next.saturating_sub(1);
        self.words.get(last).map_or(1, |word| word.line)
    }

    fn problem(&self, text: String) -> Problem {
        Problem {
            line: self.peek().map_or_else(|| self.line(), |word| word.line),
            text,
        }
    }

    /// Skips to the next line that starts a command.
    pub(super) fn skip_to_command(&mut self) {
        while self
            .peek()
            .is_some_and(|word| !(word.first && matches!(word.text, "erase" | "for")))
        {
            self.next += 1;
        }
    }
}

/// Parses a number of bytes with an optional suffix K or M.
fn bytes(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(['k', 'K', 'm', 'M']);
    let factor = match &word[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
