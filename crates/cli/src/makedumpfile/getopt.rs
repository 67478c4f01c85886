//! A parser like getopt_long(3): `-cd31`, `-d 31`, options after operands, `--num-threads=4`,
//! and unambiguous abbreviations of long options. No crate supports the last, and scripts use
//! it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::OPTIONS;
use super::spec::Spec;

/// The next item.
#[derive(Debug)]
pub enum Item {
    /// An option and its value.
    Option(&'static Spec, OsString),
    /// An operand.
    Operand(OsString),
}

/// Iterates over a command line.
pub struct Getopt {
    left: VecDeque<OsString>,
    /// The rest of a bundle of short options.
    bundle: VecDeque<u8>,
    only_operands: bool,
}

impl Getopt {
    /// Takes the arguments without the program's name.
    pub fn new(arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            left: arguments.into_iter().collect(),
            bundle: VecDeque::new(),
            only_operands: false,
        }
    }

    /// Returns the next option or operand; errors are worded as by getopt_long.
    pub fn next(&mut self) -> Option<Result<Item, String>> {
        if let Some(letter) = self.bundle.pop_front() {
            return Some(self.short(letter));
        }
        let argument = self.left.pop_front()?;
        let bytes = argument.as_bytes();
        if self.only_operands || bytes == b"-" || !bytes.starts_with(b"-") {
            return Some(Ok(Item::Operand(argument)));
        }
        if bytes == b"--" {
            self.only_operands = true;
            return self.next();
        }
        if let Some(long) = bytes.strip_prefix(b"--") {
            return Some(self.long(long));
        }
        self.bundle = bytes[1..].iter().copied().collect();
        self.next()
    }

    fn short(&mut self, letter: u8) -> Result<Item, String> {
        let name = char::from(letter);
        let spec = OPTIONS.iter().find(|spec| spec.short == Some(name));
        let Some(spec) = spec else {
            return Err(format!("invalid option -- '{name}'"));
        };
        if spec.value.is_none() {
            return Ok(Item::Option(spec, OsString::new()));
        }
        let value = if self.bundle.is_empty() {
            let missing = || format!("option requires an argument -- '{name}'");
            self.left.pop_front().ok_or_else(missing)?
        } else {
            OsString::from_vec(self.bundle.drain(..).collect())
        };
        Ok(Item::Option(spec, value))
    }

    fn long(&mut self, argument: &[u8]) -> Result<Item, String> {
        let mut halves = argument.splitn(2, |byte| *byte == b'=');
        let name = String::from_utf8_lossy(halves.next().unwrap_or_default()).into_owned();
        let value = halves.next();
        let spec = find_long(&name)?;
        let long = spec.long.unwrap_or_default();
        match (spec.value, value) {
            (None, None) => Ok(Item::Option(spec, OsString::new())),
            (None, Some(_)) => Err(format!("option '--{long}' doesn't allow an argument")),
            (Some(_), Some(value)) => Ok(Item::Option(spec, OsStr::from_bytes(value).into())),
            (Some(_), None) => {
                let missing = || format!("option '--{long}' requires an argument");
                Ok(Item::Option(
                    spec,
                    self.left.pop_front().ok_or_else(missing)?,
                ))
            }
        }
    }
}

/// Finds a long option by name or unambiguous abbreviation.
fn find_long(name: &str) -> Result<&'static Spec, String> {
    let named = |spec: &&Spec| spec.long == Some(name);
    if let Some(spec) = OPTIONS.iter().find(named) {
        return Ok(spec);
    }
    let begins = |spec: &&Spec| spec.long.is_some_and(|long| long.starts_with(name));
    let candidates: Vec<_> = OPTIONS.iter().filter(begins).collect();
    match candidates[..] {
        [spec] => Ok(spec),
        [] => Err(format!("unrecognized option '--{name}'")),
        _ => {
            let names = candidates.iter().filter_map(|spec| spec.long);
            let names: Vec<_> = names.map(|long| format!("'--{long}'")).collect();
            Err(format!(
                "option '--{name}' is ambiguous; possibilities: {}",
                names.join(" ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interpretation of a command line, as one line.
    fn taken(line: &str) -> String {
        let mut getopt = Getopt::new(line.split(' ').map(OsString::from));
        let mut out = Vec::new();
        while let Some(found) = getopt.next() {
            out.push(match found {
                Ok(Item::Option(spec, value)) => {
                    let value = value.to_string_lossy();
                    format!("{:?}{value}", spec.id)
                }
                Ok(Item::Operand(operand)) => format!("<{}>", operand.to_string_lossy()),
                Err(error) => error,
            });
        }
        out.join(" ")
    }

    #[test]
    fn options_are_parsed_like_getopt_long() {
        for (line, expected) in [
            ("-cd31 a b", "Zlib DumpLevel31 <a> <b>"),
            ("-l -d 31 a b", "Lzo DumpLevel31 <a> <b>"),
            ("a -d11,31 b -f", "<a> DumpLevel11,31 <b> Force"),
            ("--num-threads=4 -zFE", "Threads4 Zstd Flattened Elf"),
            (
                "--num 4 --spl -",
                "Threads4 option '--spl' is ambiguous; possibilities: '--split' '--splitblock-size' <->",
            ),
            ("--split -- -c", "Split <-c>"),
            ("--splitb 8 --rea", "SplitblockSize8 Reassemble"),
            ("--split=3", "option '--split' doesn't allow an argument"),
            ("--vtop", "option '--vtop' requires an argument"),
            ("--nosuch=x", "unrecognized option '--nosuch'"),
            ("-d", "option requires an argument -- 'd'"),
            ("-cq", "Zlib invalid option -- 'q'"),
        ] {
            assert_eq!(taken(line), expected, "{line}");
        }
    }
}
