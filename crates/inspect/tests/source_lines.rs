//! Source lines of files that this machine's compiler makes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use bigiron_inspect::source_lines::{DebugFile, SourceLine};

/// `inner` is inlined into `outer`; both sections with code begin at address 0 of their own.
const SOURCE: &str = "\
static volatile int place;
static inline __attribute__((always_inline)) void inner(int value)
{
    place = value;
}
void outer(int value)
{
    inner(value + 1);
}
__attribute__((section(\".init.text\"))) void begin(void)
{
    place = 3;
}
int main(void)
{
    outer(1);
    begin();
    return place;
}
";

/// Compiles the source with these flags; `None` if there is no compiler.
fn compile(directory: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = directory.join("source.c");
    fs::write(&source, SOURCE).unwrap();
    let output = directory.join("output");
    let compiled = Command::new("cc")
        .args(["-g", "-O1", "-o"])
        .args([&output, &source])
        .args(flags)
        .output();
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{text}");
    Some(output)
}

fn lines(file: &DebugFile, function: &str) -> Vec<(String, u32)> {
    // Not every instruction is of what was inlined, and the next function is not far.
    let start = file.symbol(function, None).unwrap();
    let all = (start..start + 16).filter_map(|address| file.lines(address).ok());
    let is_of_it = |lines: &Vec<SourceLine>| {
        let last = lines.last().and_then(|last| last.function.as_deref());
        last == Some(function)
    };
    let longest = all.filter(is_of_it).max_by_key(Vec::len).unwrap();
    let lines = longest.into_iter();
    lines
        .map(|line| {
            assert!(line.file.ends_with("/source.c"), "{line}");
            (line.function.unwrap(), line.line)
        })
        .collect()
}

fn check(file: &DebugFile) {
    let inlined = [("inner".to_owned(), 4), ("outer".to_owned(), 8)];
    assert_eq!(lines(file, "outer"), inlined);
    let begin = lines(file, "begin");
    assert!(
        begin
            .iter()
            .all(|(name, line)| name == "begin" && (10..=13).contains(line)),
        "{begin:?}"
    );
}

fn open(path: &Path) -> Result<DebugFile, String> {
    DebugFile::open(&File::open(path).unwrap(), path)
}

#[test]
fn linked_file_has_the_lines_of_its_code() {
    let directory = tempfile::tempdir().unwrap();
    if let Some(path) = compile(directory.path(), &["-no-pie"]) {
        check(&open(&path).unwrap());
    }
}

#[test]
fn object_file_has_the_lines_of_all_sections_in_each_version_of_dwarf() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let directory = tempfile::tempdir().unwrap();
        if let Some(path) = compile(directory.path(), &["-c", version]) {
            check(&open(&path).unwrap());
        }
    }
}

#[test]
fn file_without_readable_debug_information_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |path: &Path, expected: &str| {
        let error = open(path).err().unwrap();
        let name = path.display().to_string();
        assert!(
            error.starts_with(&name) && error.contains(expected),
            "{error}"
        );
    };
    if let Some(path) = compile(directory.path(), &["-g0", "-c"]) {
        refused(&path, "no debug information");
    }
    if let Some(path) = compile(directory.path(), &["-gz=zlib", "-c"]) {
        refused(&path, "objcopy --decompress-debug-sections");
    }
    let text = directory.path().join("text");
    fs::write(&text, "no ELF file").unwrap();
    refused(&text, "");
}

#[test]
fn damaged_file_is_an_error_or_has_no_lines() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = compile(directory.path(), &["-c"]) else {
        return;
    };
    let whole = fs::read(&path).unwrap();
    let damaged = directory.path().join("damaged");
    for cut in (64..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes.truncate(cut);
        fs::write(&damaged, &bytes).unwrap();
        let _ = open(&damaged).map(|file| file.lines(1 << 20));
        let mut bytes = whole.clone();
        bytes[cut] ^= 0xff;
        fs::write(&damaged, &bytes).unwrap();
        let _ = open(&damaged).map(|file| file.lines(1 << 20));
    }
}
