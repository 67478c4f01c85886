//! The library as used by programs in C and C++: installed by scripts/c-library, found by
//! pkg-config, shared and static.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const STRICT: [&str; 6] = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-O1",
    "-D_GNU_SOURCE",
];

/// Returns an installation tree of the library, created once for all tests.
fn installed() -> &'static Path {
    static TREE: OnceLock<tempfile::TempDir> = OnceLock::new();
    TREE.get_or_init(|| {
        let tree = tempfile::tempdir().unwrap();
        let script = Path::new(HERE).join("../../scripts/c-library");
        let mut install = Command::new(script);
        install.args(["--profile", "unit", "--libdir", "lib/here"]);
        run(install.arg("").arg(tree.path().join("usr")));
        tree
    })
    .path()
}

fn library_directory() -> PathBuf {
    installed().join("usr/lib/here")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}");
    });
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        text(&output)
    );
    text(&output)
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Returns true if a program is installed; otherwise prints a message.
fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("SKIP {program} is not installed");
    }
    found
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", library_directory().join("pkgconfig"));
    let said = run(ask.args(arguments).arg("bigiron-mem"));
    said.split_whitespace().map(str::to_owned).collect()
}

/// Method by which a program is linked with the library.
#[derive(Clone, Copy, PartialEq)]
enum Linked {
    Shared,
    /// Only this library is linked statically.
    Static,
    /// All libraries are linked statically.
    WhollyStatic,
}

fn compile(compiler: &str, extra: &[&str], source: &Path, linked: Linked, program: &Path) {
    let mut command = Command::new(compiler);
    command.args(STRICT).args(extra).arg("-pthread");
    command.arg(format!(
        "-DEXPECTED_VERSION=\"{}\"",
        env!("CARGO_PKG_VERSION")
    ));
    command.args(pkg_config(&["--cflags"]));
    command.arg(source).args(["-x", "none", "-o"]).arg(program);
    match linked {
        Linked::Shared => command.args(pkg_config(&["--libs"])),
        Linked::Static => {
            let libraries = pkg_config(&["--static", "--libs"]);
            command.args(libraries.iter().map(|library| match library.as_str() {
                "-lbigiron_mem" => "-l:libbigiron_mem.a",
                other => other,
            }))
        }
        Linked::WhollyStatic => {
            command.arg("-static");
            command.args(pkg_config(&["--static", "--libs"]))
        }
    };
    run(&mut command);
}

/// Compiles one of the tests in C, or the example, and runs it, under the command `under` if
/// that is not empty.
fn compile_and_run(
    compiler: &str,
    extra: &[&str],
    source: &str,
    linked: Linked,
    under: &[&str],
) -> String {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    compile(
        compiler,
        extra,
        &Path::new(HERE).join(source),
        linked,
        &program,
    );
    let mut whole: Vec<&OsStr> = under.iter().map(OsStr::new).collect();
    whole.push(program.as_os_str());
    let (first, others) = whole.split_first().unwrap();
    let mut command = Command::new(first);
    command.args(others).current_dir(directory.path());
    if linked == Linked::Shared {
        command.env("LD_LIBRARY_PATH", library_directory());
    }
    run(&mut command)
}

const C: [&str; 1] = ["-std=c11"];
const CXX: [&str; 3] = ["-std=c++17", "-x", "c++"];
const PROGRAMS: [&str; 2] = ["tests/c/memory.c", "tests/c/segments.c"];

#[test]
fn programs_in_c_with_the_shared_library() {
    for source in PROGRAMS {
        print!("{}", compile_and_run("cc", &C, source, Linked::Shared, &[]));
    }
}

#[test]
fn programs_in_c_with_the_static_library() {
    for source in PROGRAMS {
        compile_and_run("cc", &C, source, Linked::Static, &[]);
    }
}

#[test]
fn fully_static_programs_in_c() {
    for source in PROGRAMS {
        compile_and_run("cc", &C, source, Linked::WhollyStatic, &[]);
    }
}

#[test]
fn programs_in_cxx() {
    if !have("c++") {
        return;
    }
    for source in PROGRAMS {
        compile_and_run("c++", &CXX, source, Linked::Shared, &[]);
    }
}

#[test]
fn sanitizers_find_no_errors() {
    let sanitized = [C[0], "-fsanitize=address,undefined", "-g"];
    for source in PROGRAMS {
        compile_and_run("cc", &sanitized, source, Linked::Static, &[]);
    }
}

#[test]
fn valgrind_finds_no_errors() {
    if !have("valgrind") {
        return;
    }
    // Valgrind reports std's data of a thread as only possibly reachable.
    let under = [
        "valgrind",
        "-q",
        "--error-exitcode=9",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    for source in PROGRAMS {
        compile_and_run("cc", &["-std=c11", "-g"], source, Linked::Shared, &under);
    }
}

#[test]
fn documented_example_compiles_and_runs() {
    let source = "examples/buffer_pool.c";
    let said = compile_and_run("cc", &["-std=c99"], source, Linked::Shared, &[]);
    assert!(said.contains("256 MiB by"), "{said}");
    let shown = std::fs::read_to_string(Path::new(HERE).join("../../docs/c-library.md")).unwrap();
    let example = std::fs::read_to_string(Path::new(HERE).join(source)).unwrap();
    assert!(
        shown.contains(&example),
        "the example in docs/c-library.md differs"
    );
}

#[test]
fn only_the_functions_of_the_header_are_exported() {
    let header = std::fs::read_to_string(Path::new(HERE).join("include/bigiron_mem.h")).unwrap();
    let declared: BTreeSet<_> = header
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back())
        .filter(|name| name.starts_with("bigiron_mem_"))
        .map(str::to_owned)
        .collect();
    assert!(declared.len() > 15, "{declared:?}");
    let directory = library_directory();
    let shared = ["-D", "--defined-only"];
    let fixed = ["-g", "--defined-only"];
    for (options, name) in [(shared, "libbigiron_mem.so"), (fixed, "libbigiron_mem.a")] {
        let said = run(Command::new("nm").args(options).arg(directory.join(name)));
        let seen: BTreeSet<_> = said
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace().rev();
                let name = words.next()?;
                words.next().map(|_| name.to_owned())
            })
            .collect();
        assert_eq!(seen, declared, "{name}");
    }
}

#[test]
fn shared_library_is_found_by_its_soname() {
    let directory = library_directory();
    let said = run(Command::new("readelf")
        .arg("-d")
        .arg(directory.join("libbigiron_mem.so")));
    assert!(said.contains("[libbigiron_mem.so.0]"), "{said}");
    let target = std::fs::read_link(directory.join("libbigiron_mem.so.0")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        target.to_str().unwrap(),
        format!("libbigiron_mem.so.{version}")
    );
    assert_eq!(pkg_config(&["--modversion"]), [version]);
}
