//! The place of the dump: is it there, may it be written, does the dump fit?

use std::fs;
use std::io;
use std::path::PathBuf;

use bigiron_format::device;
use bigiron_kernel::source::DumpFile;
use rustix::fs::statvfs;

use super::checked::Checked;
use super::estimate::Estimate;
use super::line::{Line, Verdict};
use super::place::Target;
use super::root::Root;
use crate::size;

/// Room that should be left, as a part of the dump: the machine may be busier when it crashes.
const ROOM_NUMERATOR: u64 = 3;
const ROOM_DENOMINATOR: u64 = 2;

/// Checks the place, and the directory for a dump that is saved from it.
pub fn check(checked: &Checked) -> Vec<Line> {
    let estimates = checked.estimates;
    let dump = estimates.and_then(|estimates| estimates.dumps.first());
    let mut lines = Vec::new();
    if let Target::Device(device, _) = checked.target {
        let overwrite = checked
            .kit
            .how
            .as_ref()
            .is_ok_and(|how| how.overwrite_device);
        lines.extend(check_device(checked.root, device, overwrite, dump));
    }
    lines.push(check_directory(checked, dump));
    lines
}

fn check_device(
    root: &Root,
    device: &PathBuf,
    overwrite: bool,
    dump: Option<&Estimate>,
) -> Vec<Line> {
    let (name, shown) = ("device", device.display());
    let failure = |text: String| vec![Line::new(name, Verdict::Failure, text)];
    let opened = match DumpFile::open(&root.path(device)) {
        Ok(opened) => opened,
        Err(error) => return failure(format!("{shown}: {error}")),
    };
    let mut lines = Vec::new();
    let bytes = bigiron_format::ReadAt::size(&opened);
    match device::find_claims(&opened) {
        Err(error) => return failure(format!("{shown}: cannot read it: {error}")),
        Ok(claims) if !claims.is_empty() && !overwrite => {
            let names: Vec<_> = claims.iter().map(|claim| claim.name).collect();
            return failure(format!(
                "{shown}: has {}, so a dump there is refused; name a partition that has nothing \
                 else, or add --overwrite-device to CAPTURE_OPTIONS",
                names.join(", ")
            ));
        }
        Ok(_) => {}
    }
    lines.push(match device::find(&opened) {
        Ok(Some(found)) if found.header.valid => Line::new(
            "unsaved_dump",
            Verdict::Warning,
            format!(
                "{shown}: holds a dump that was not saved, so that the next one is refused; run \
                 `systemctl start bigiron-save` or `bigiron save {shown}`"
            ),
        ),
        Err(error) => Line::new(
            "unsaved_dump",
            Verdict::Warning,
            format!("{shown}: {error}"),
        ),
        Ok(_) => Line::new(
            "unsaved_dump",
            Verdict::Ok,
            format!("{shown}: holds no unsaved dump"),
        ),
    });
    lines.push(room(name, &shown.to_string(), bytes, dump));
    lines
}

fn check_directory(checked: &Checked, dump: Option<&Estimate>) -> Line {
    let (name, directory) = ("directory", checked.target.directory());
    let shown = directory.display().to_string();
    let failure = |text: String| Line::new(name, Verdict::Failure, format!("{shown}: {text}"));
    let path = checked.root.path(directory);
    match fs::metadata(&path) {
        // The parent decides: the scripts make the directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.ancestors().find(|parent| parent.is_dir());
            match parent.and_then(|parent| statvfs(parent).ok()) {
                Some(found) => room(name, &shown, found.f_bavail * found.f_frsize, dump),
                None => failure("is missing".into()),
            }
        }
        Err(error) => failure(error.to_string()),
        Ok(found) if !found.is_dir() => failure("is no directory".into()),
        Ok(_) => match statvfs(&path) {
            Ok(found) if found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) => {
                failure("the file system is read-only".into())
            }
            Ok(found) => room(name, &shown, found.f_bavail * found.f_frsize, dump),
            Err(error) => failure(error.to_string()),
        },
    }
}

/// Compares the room with the dump that is expected.
fn room(name: &'static str, shown: &str, bytes: u64, dump: Option<&Estimate>) -> Line {
    let free = size::format(bytes);
    let Some(dump) = dump else {
        return Line::new(
            name,
            Verdict::Note,
            format!("{shown}: room for {free}; the size of the dump was not estimated"),
        );
    };
    let expected = size::format(dump.bytes);
    let comfortable = dump.bytes.saturating_mul(ROOM_NUMERATOR) / ROOM_DENOMINATOR;
    let (verdict, judgement) = match bytes {
        bytes if bytes < dump.bytes => (Verdict::Failure, "too little for"),
        bytes if bytes < comfortable => (Verdict::Warning, "just enough for"),
        _ => (Verdict::Ok, "enough for"),
    };
    Line::new(
        name,
        verdict,
        format!("{shown}: room for {free}, {judgement} a dump of {expected}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(bytes: u64) -> Estimate {
        Estimate {
            dump_level: 31,
            format: "kdump",
            compression: None,
            pages: 1,
            sampled_pages: 1,
            bytes,
            seconds: 1.0,
            filter_seconds: 0.0,
            cpu_seconds: 1.0,
            write_seconds: 1.0,
        }
    }

    #[test]
    fn room_is_judged_by_the_dump_that_is_expected() {
        let verdict = |room_bytes| room("directory", "/x", room_bytes, Some(&dump(100))).verdict;
        assert_eq!(verdict(99), Verdict::Failure);
        assert_eq!(verdict(149), Verdict::Warning);
        assert_eq!(verdict(150), Verdict::Ok);
        assert_eq!(room("directory", "/x", 1, None).verdict, Verdict::Note);
    }
}
