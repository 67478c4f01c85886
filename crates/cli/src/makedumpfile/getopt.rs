//! The command line as getopt_long(3) takes it: `-cd31`, `-d 31`, options
//! behind operands, `--num-threads=4`, and long options by any beginning that
//! only one of them has. No crate in use knows the last, and scripts use it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::OPTIONS;
use super::spec::Spec;

/// What comes next.
#[derive(Debug)]
pub enum Found {
    /// An option and its value.
    Option(&'static Spec, OsString),
    /// What is no option.
    Operand(OsString),
}

/// Goes through a command line.
pub struct Getopt {
    left: VecDeque<OsString>,
    /// The rest of an argument of several short options.
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

    /// The next option or operand; an error is worded as getopt_long's is.
    pub fn next(&mut self) -> Option<Result<Found, String>> {
        if let Some(letter) = self.bundle.pop_front() {
            return Some(self.short(letter));
        }
        let argument = self.left.pop_front()?;
        let bytes = argument.as_bytes();
        if self.only_operands || bytes == b"-" || !bytes.starts_with(b"-") {
            return Some(Ok(Found::Operand(argument)));
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

    fn short(&mut self, letter: u8) -> Result<Found, String> {
        let name = char::from(letter);
        let spec = OPTIONS.iter().find(|spec| spec.short == Some(name));
        let Some(spec) = spec else {
            return Err(format!("invalid option -- '{name}'"));
        };
        if spec.value.is_none() {
            return Ok(Found::Option(spec, OsString::new()));
        }
        let value = if self.bundle.is_empty() {
            let missing = || format!("option requires an argument -- '{name}'");
            self.left.pop_front().ok_or_else(missing)?
        } else {
            OsString::from_vec(self.bundle.drain(..).collect())
        };
        Ok(Found::Option(spec, value))
    }

    fn long(&mut self, argument: &[u8]) -> Result<Found, String> {
        let mut halves = argument.splitn(2, |byte| *byte == b'=');
        let name = String::from_utf8_lossy(halves.next().unwrap_or_default()).into_owned();
        let value = halves.next();
        let spec = find_long(&name)?;
        let long = spec.long.unwrap_or_default();
        match (spec.value, value) {
            (None, None) => Ok(Found::Option(spec, OsString::new())),
            (None, Some(_)) => Err(format!("option '--{long}' doesn't allow an argument")),
            (Some(_), Some(value)) => Ok(Found::Option(spec, OsStr::from_bytes(value).into())),
            (Some(_), None) => {
                let missing = || format!("option '--{long}' requires an argument");
                Ok(Found::Option(
                    spec,
                    self.left.pop_front().ok_or_else(missing)?,
                ))
            }
        }
    }
}

/// The long option of that name, or the only one that begins so.
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

    /// What a command line is taken for, in one line.
    fn taken(line: &str) -> String {
        let mut getopt = Getopt::new(line.split(' ').map(OsString::from));
        let mut out = Vec::new();
        while let Some(found) = getopt.next() {
            out.push(match found {
                Ok(Found::Option(spec, value)) => {
                    let value = value.to_string_lossy();
                    format!("{:?}{value}", spec.id)
                }
                Ok(Found::Operand(operand)) => format!("<{}>", operand.to_string_lossy()),
                Err(error) => error,
            });
        }
        out.join(" ")
    }

    #[test]
    fn options_are_taken_as_getopt_long_takes_them() {
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
