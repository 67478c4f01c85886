//! Under allocators that take their memory from the library's mmap, the library allocates
//! nothing inside it, and no output is lost at the end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Program, SMALL_TO_THE_END, kinds, library, run};

fn works_with(allocator: &Path, expected: &[&str]) {
    let Some(program) = Program::compile("allocates") else {
        return;
    };
    for order in [
        [library().as_path(), allocator],
        [allocator, library().as_path()],
    ] {
        let trace = program.folder().join("trace");
        let _ = std::fs::remove_file(&trace);
        let policy = format!("{SMALL_TO_THE_END},trace={}", trace.display());
        let order = order
            .map(|path| path.to_str().unwrap().to_owned())
            .join(" ");
        let mut command = program.preloaded(&[], &policy);
        let output = run(command.env("LD_PRELOAD", &order));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, "0 bad, 1 tasks\n", "{order}: {output:?}");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let left = std::fs::read_to_string(program.folder().join("left")).unwrap();
        assert_eq!(left, "all of it", "{order}");
        let trace = std::fs::read_to_string(&trace).unwrap_or_default();
        let accelerated = kinds(&trace);
        for kind in expected {
            assert!(
                accelerated.iter().any(|seen| seen == kind),
                "{kind}: {trace}"
            );
        }
    }
}

#[test]
fn allocator_that_detects_recursion() {
    let folder = tempfile::tempdir().unwrap();
    let allocator = folder.path().join("liballocator.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/allocator.c");
    let compiler = Command::new("cc")
        .args([
            "-O1",
            "-fPIC",
            "-shared",
            "-pthread",
            "-fno-builtin",
            "-ftls-model=initial-exec",
            "-o",
        ])
        .args([&allocator, &source])
        .status();
    match compiler {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            println!("skipped: no C compiler `cc` to make an allocator with");
            return;
        }
    }
    works_with(&allocator, &["exit", "mmap", "munmap"]);
}

#[test]
fn jemalloc() {
    let places = [
        "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2",
        "/usr/lib64/libjemalloc.so.2",
    ];
    match places.iter().find(|place| Path::new(place).exists()) {
        Some(place) => works_with(Path::new(place), &[]),
        None => println!("skipped: no libjemalloc.so.2 (Debian: libjemalloc2)"),
    }
}

const SHARED: &str = "threshold=64K,chunk=64K,huge=never";

#[test]
fn malloc_is_not_called_before_the_program_calls_it() {
    if let Some(program) = Program::compile("untouched") {
        program.same(&[], SHARED, &["munmap"]);
    }
}

#[test]
fn no_helpers_work_under_thread_sanitizer() {
    let Some(program) = Program::compile("untouched") else {
        return;
    };
    let source = program.folder().join("sanitizer.c");
    let sanitizer = program.folder().join("libsanitizer.so");
    std::fs::write(&source, "void __tsan_init(void) {}\n").unwrap();
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&sanitizer, &source])
        .status();
    assert!(compiler.unwrap().success());
    let ours = library().display().to_string();
    let both = format!("{ours} {}", sanitizer.display());
    for (libraries, shared) in [(ours, true), (both, false)] {
        let mut command = program.preloaded(&[], &format!("{SHARED},trace=stderr"));
        let output = run(command.env("LD_PRELOAD", libraries));
        assert!(output.status.success());
        assert_eq!(!output.stderr.is_empty(), shared, "{output:?}");
    }
}
