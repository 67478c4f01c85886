//! A dump device in memory (`bigiron setup ram-dump`): is it there, and large enough?

use super::checked::Checked;
use super::line::{Line, Verdict};
use crate::ram_dump::{DEVICE, check::check as conditions, files};
use crate::size;

/// Checks the device, if it was set up.
pub fn check(checked: &Checked) -> Vec<Line> {
    let root = checked.root.directory();
    let name = "ram_dump";
    let range = match files::read(root) {
        Ok(Some(range)) => range,
        Ok(None) => {
            let text = "not set up; `bigiron setup ram-dump` brings the service back before the dump is \
                        on a disk";
            return vec![Line::new(name, Verdict::Note, text)];
        }
        Err(error) => return vec![Line::new(name, Verdict::Failure, format!("{error:#}"))],
    };
    let mut lines: Vec<_> = conditions(root, range)
        .into_iter()
        .map(|condition| match condition.failure {
            Some(failure) => {
                let text = format!("{}: {failure}", condition.text);
                Line::new(name, Verdict::Failure, text)
            }
            None => Line::new(name, Verdict::Ok, condition.text),
        })
        .collect();
    match files::capture_warning(root, range) {
        Ok(Some(warning)) => lines.push(Line::new(name, Verdict::Failure, warning)),
        Ok(None) => {}
        Err(error) => lines.push(Line::new(name, Verdict::Warning, format!("{error:#}"))),
    }
    let dump = checked
        .estimates
        .and_then(|estimates| estimates.dumps.first());
    if let Some(dump) = dump {
        let verdict = match range.size {
            bytes if bytes < dump.bytes => Verdict::Failure,
            bytes if bytes < dump.bytes.saturating_mul(3) / 2 => Verdict::Warning,
            _ => Verdict::Ok,
        };
        let text = format!(
            "/dev/{DEVICE} has {}, and a dump of {} is expected",
            size::format(range.size),
            size::format(dump.bytes)
        );
        lines.push(Line::new("ram_dump_size", verdict, text));
    }
    lines
}
