//! The language of makedumpfile.conf(5): which data is to be erased.
//!
//! ```text
//! [vmlinux]
//! erase SYMBOL[.MEMBER]... [size N[K|M] | size SYMBOL[.MEMBER]... | nullify]
//! for ID in LIST [via MEMBER | within STRUCT[:MEMBER]]
//!     erase ID[.MEMBER]... [size ... | nullify]
//! endfor
//! ```
//! Words are divided by spaces and line ends; `#` begins a comment. Behind a
//! symbol its type may be written, `SYMBOL:TYPE`, which makedumpfile has not: it
//! is for kernels whose types are known but not those of their variables.

use super::parser::{Parser, Word};

/// Nobody writes so much by hand.
pub const MOST_BYTES: usize = 1 << 20;

/// What is wrong, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub text: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Config error at {}: {}", self.line, self.text)
    }
}

/// `SYMBOL[:TYPE][.MEMBER]...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// As it is written.
    pub text: String,
    /// The symbol, or the variable of the loop.
    pub symbol: String,
    /// The type that is written behind the symbol.
    pub written_type: Option<String>,
    /// The members, from the outside in.
    pub members: Vec<String>,
}

/// How much is erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// What the type says.
    ByType,
    /// So many bytes.
    Bytes(u64),
    /// As many bytes as this variable says.
    Variable(Expression),
    /// The pointer itself, which becomes 0.
    Nullify,
}

/// `erase`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erase {
    /// Its line.
    pub line: usize,
    /// What is erased.
    pub target: Expression,
    /// How much of it.
    pub amount: Amount,
}

/// How a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing is said: an array, or members called `next`.
    Unsaid,
    /// By this member.
    Via(String),
    /// Elements are this struct, in the list by this member of type list_head.
    Within(String, String),
}

/// `for`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its line.
    pub line: usize,
    /// The variable.
    pub id: String,
    /// What it goes through.
    pub list: Expression,
    /// How that goes on.
    pub link: Link,
    /// What is erased of each element.
    pub body: Vec<Erase>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `erase`.
    Erase(Erase),
    /// `for`.
    Loop(Loop),
}

/// A file of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The commands, and the module each is for: `vmlinux` or a module's name.
    pub commands: Vec<(String, Command)>,
    /// What makes no sense.
    pub problems: Vec<Problem>,
}

impl Config {
    /// Understands a file. What makes no sense is passed over, up to the next
    /// line that begins a command.
    pub fn parse(text: &[u8]) -> Self {
        let mut config = Self::default();
        if text.len() > MOST_BYTES {
            config.problems.push(Problem {
                line: 1,
                text: format!("the file has more than {MOST_BYTES} bytes"),
            });
            return config;
        }
        let text = String::from_utf8_lossy(text);
        let mut module = "vmlinux".to_owned();
        let mut words = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let number = index + 1;
            let Some(section) = line.strip_prefix('[') else {
                let split = line.split_ascii_whitespace();
                words.extend(split.enumerate().map(|(place, text)| Word {
                    line: number,
                    first: place == 0,
                    text,
                }));
                continue;
            };
            config.section(&module, std::mem::take(&mut words));
            match section.split_once(']') {
                Some((name, _)) => module = name.to_owned(),
                None => config.problems.push(Problem {
                    line: number,
                    text: "Invalid module section entry.".into(),
                }),
            }
        }
        config.section(&module, words);
        config
    }

    fn section(&mut self, module: &str, words: Vec<Word>) {
        let mut parser = Parser {
            words: &words,
            next: 0,
        };
        while parser.next < words.len() {
            match parser.command() {
                Ok(command) => self.commands.push((module.to_owned(), command)),
                Err(problem) => {
                    self.problems.push(problem);
                    parser.skip_to_command();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text.as_bytes())
    }

    #[test]
    fn commands_are_understood_over_lines_and_comments() {
        let config = parse(
            "erase a.b.c # nothing\n  erase p size\n\t 2K\n[sd_mod]\nerase q nullify\n\
             for x in list.next within s:link\n erase x.key size x.len\nendfor\n",
        );
        assert_eq!(config.problems, []);
        let modules: Vec<_> = config.commands.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(modules, ["vmlinux", "vmlinux", "sd_mod", "sd_mod"]);
        let Command::Erase(first) = &config.commands[0].1 else {
            panic!("a loop")
        };
        assert_eq!(first.target.members, ["b", "c"]);
        let Command::Erase(second) = &config.commands[1].1 else {
            panic!("a loop")
        };
        assert_eq!((second.line, &second.amount), (2, &Amount::Bytes(2048)));
        let Command::Loop(last) = &config.commands[3].1 else {
            panic!("no loop")
        };
        assert_eq!(last.link, Link::Within("s".into(), "link".into()));
        assert!(matches!(&last.body[0].amount, Amount::Variable(e) if e.text == "x.len"));
    }

    #[test]
    fn what_makes_no_sense_is_named_by_line_and_the_rest_is_kept() {
        let config =
            parse("erase\nerase size\nfoo\nerase a\nfor i in b\nerase c\nendfor\nerase d\n");
        let lines: Vec<_> = config.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 2, 7]);
        let kept = config.commands.iter().map(|(_, command)| match command {
            Command::Erase(erase) => &erase.target.text[..],
            Command::Loop(_) => "loop",
        });
        assert_eq!(kept.collect::<Vec<_>>(), ["a", "d"]);
        assert_eq!(parse("for a in b\nerase a\n").problems.len(), 1);
        assert_eq!(parse("[vmlinux\n").problems.len(), 1);
    }

    #[test]
    fn a_written_type_belongs_to_the_symbol() {
        let config = parse("erase uts:uts_namespace.name.nodename");
        let Command::Erase(erase) = &config.commands[0].1 else {
            panic!("a loop")
        };
        assert_eq!(erase.target.written_type.as_deref(), Some("uts_namespace"));
        assert_eq!(erase.target.members, ["name", "nodename"]);
    }
}
