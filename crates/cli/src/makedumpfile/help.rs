//! `-h` and `-v`.

use std::fmt::Write as _;

use super::options::OPTIONS;
use super::spec::Class;

const USAGE: &str = "
LZO support:
  enabled
snappy support:
  enabled
zstd support:
  enabled

Usage:
  # makedumpfile    [OPTION] [-x VMLINUX|-i VMCOREINFO] VMCORE DUMPFILE
  # makedumpfile -F [OPTION] [-x VMLINUX|-i VMCOREINFO] VMCORE
  # makedumpfile -R DUMPFILE
  # makedumpfile --split [OPTION] VMCORE DUMPFILE1 DUMPFILE2 [DUMPFILE3 ..]
  # makedumpfile --reassemble DUMPFILE1 DUMPFILE2 [DUMPFILE3 ..] DUMPFILE
  # makedumpfile --dump-dmesg [--partial-dmesg] VMCORE LOGFILE
  # makedumpfile --mem-usage /proc/kcore
";

/// Width of the text, in columns.
const WIDTH: usize = 72;

/// Returns the text of `-h`.
pub fn usage() -> String {
    let mut text = String::from(USAGE);
    for (class, title) in [
        (Class::Done, "Available options"),
        (Class::Ignored, "Options that are accepted and ignored"),
        (Class::Refused, "Options that are not supported"),
    ] {
        let _ = write!(text, "\n{title}:\n");
        for option in OPTIONS.iter().filter(|option| option.class == class) {
            let _ = writeln!(text, "  [{}]:", option.usage());
            wrap(&mut text, option.text);
        }
    }
    text.push('\n');
    text
}

fn wrap(text: &mut String, words: &str) {
    let mut line = String::from("     ");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from("     ");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(text, "{line}");
}

/// Returns the text of `-v`. Programs parse the version, so it is that of the makedumpfile
/// whose options these are.
pub fn version() -> String {
    format!(
        "makedumpfile: version 1.7.2 (implemented by bigiron {})\n\
         lzo\tenabled\nsnappy\tenabled\nzstd\tenabled\n\n",
        env!("CARGO_PKG_VERSION")
    )
}
