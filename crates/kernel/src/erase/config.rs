//! Parser for the commands of makedumpfile.conf(5), which name the data to erase.
//!
//! ```text
//! [vmlinux]
//! erase SYMBOL[.MEMBER]... [size N[K|M] | size SYMBOL[.MEMBER]... | nullify]
//! for ID in LIST [via MEMBER | within STRUCT[:MEMBER] | per-cpu]
//!     erase ID[.MEMBER]... [size ... | nullify]
//! endfor
//! ```
//! Words are separated by spaces and line ends; `#` starts a comment. Extensions of
//! makedumpfile's syntax: a symbol may be followed by its type, `SYMBOL:TYPE`, for
//! kernels whose variables have no type information; LIST may be a red-black tree, an
//! xarray, an hlist, or with `per-cpu` a variable that each CPU has; a loop may have a
//! loop over a part of its elements in place of commands.

use super::command::{Command, Problem};
use super::parser::{Parser, Word};

/// Maximum size of a configuration file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// A parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The commands, each with its section: `vmlinux` or a module name.
    pub commands: Vec<(String, Command)>,
    /// Commands that could not be parsed.
    pub problems: Vec<Problem>,
}

impl Config {
    /// Parses a file. An invalid command is skipped up to the next line that starts a command.
    pub fn parse(text: &[u8]) -> Self {
        let mut config = Self::default();
        if text.len() > MAX_BYTES {
            config.problems.push(Problem {
                line: 1,
                text: format!("the file has more than {MAX_BYTES} bytes"),
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
                words.extend(split.enumerate().map(|(index, text)| Word {
                    line: number,
                    first: index == 0,
                    text,
                }));
                continue;
            };
            config.section(&module, std::mem::take(&mut words));
            match section.split_once(']') {
                Some((name, _)) => module = name.to_owned(),
                None => config.problems.push(Problem {
                    line: number,
                    text: "invalid section entry: expected [MODULE]".into(),
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
    use super::super::command::{Amount, Link};
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text.as_bytes())
    }

    #[test]
    fn commands_span_lines_and_comments_are_ignored() {
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
        assert_eq!(last.link, Link::Within("s".into(), Some("link".into())));
        assert!(matches!(&last.body[0].amount, Amount::Variable(e) if e.text == "x.len"));
    }

    #[test]
    fn invalid_commands_are_reported_by_line_and_the_rest_is_kept() {
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
    fn type_after_colon_belongs_to_the_symbol() {
        let config = parse("erase uts:uts_namespace.name.nodename");
        let Command::Erase(erase) = &config.commands[0].1 else {
            panic!("a loop")
        };
        assert_eq!(erase.target.written_type.as_deref(), Some("uts_namespace"));
        assert_eq!(erase.target.members, ["name", "nodename"]);
    }
}
