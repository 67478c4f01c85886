//! Runs test programs in C with and without the preload library.
#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A policy that also accelerates small sizes, and does nothing that the program does not
/// request.
pub const SMALL: &str = "threshold=64K,chunk=64K,huge=never,attach=plain,exit=plain";

/// [`SMALL`], with an accelerated end of the process.
pub const SMALL_TO_THE_END: &str = "threshold=64K,chunk=64K,huge=never,attach=plain,exit=parallel";

/// Seconds that the end of a process waits for its threads to halt, instead of the default of a
/// few milliseconds: the tests must not depend on the load of the machine.
pub const PATIENT: (&str, &str) = ("BIGIRON_MEM_TEST_HALT_SECONDS", "600");

/// Returns the path of the library that cargo builds for the test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut paths = folders.map(|folder| folder.join("libbigiron_preload.so"));
    paths.find(|path| path.exists()).unwrap_or_else(|| {
        panic!("libbigiron_preload.so is not near {}", test.display());
    })
}

/// A compiled program of `programs/`.
pub struct Program {
    folder: TempDir,
    binary: PathBuf,
    environment: Vec<(&'static str, &'static str)>,
}

impl Program {
    /// Compiles `programs/NAME.c`. Without a compiler it prints a message and returns `None`.
    ///
    /// The environment variable BIGIRON_TEST_PROGRAMS names a directory with programs that are
    /// compiled already, for a machine without a compiler.
    pub fn compile(name: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(compiled) = std::env::var_os("BIGIRON_TEST_PROGRAMS") {
            return Some(Self {
                folder,
                binary: Path::new(&compiled).join(name),
                environment: Vec::new(),
            });
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
        let binary = folder.path().join(name);
        let compiler = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .args([&binary, &source])
            .output();
        let Ok(compiler) = compiler else {
            println!("skipped: {name} needs the C compiler `cc`");
            return None;
        };
        let errors = String::from_utf8_lossy(&compiler.stderr);
        assert!(compiler.status.success(), "{errors}");
        Some(Self {
            folder,
            binary,
            environment: Vec::new(),
        })
    }

    /// Sets an environment variable for all runs with the library.
    pub fn with(mut self, variable: (&'static str, &'static str)) -> Self {
        self.environment.push(variable);
        self
    }

    /// Returns the directory for files of this test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a command that runs the program without the library.
    pub fn plain(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.folder());
        command
    }

    /// Returns a command that runs the program with the library and a policy.
    pub fn preloaded(&self, arguments: &[&str], policy: &str) -> Command {
        let mut command = self.plain(arguments);
        command
            .env("LD_PRELOAD", library())
            .env("BIGIRON_MEM", policy)
            .envs(self.environment.iter().copied());
        command
    }

    /// Runs the program with the library. Returns its output and the trace.
    pub fn traced(&self, arguments: &[&str], policy: &str) -> (Output, String) {
        let trace = self.folder().join("trace");
        // A program that changes its user must still be able to write there.
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::write(&trace, "").unwrap();
        open(&trace, 0o666);
        open(self.folder(), 0o755);
        let policy = format!("{policy},trace={}", trace.display());
        let output = run(&mut self.preloaded(arguments, &policy));
        let trace = std::fs::read_to_string(trace).unwrap_or_default();
        (output, trace)
    }

    /// Asserts that the program behaves the same with and without the library, and that exactly
    /// these calls were accelerated.
    pub fn same(&self, arguments: &[&str], policy: &str, accelerated: &[&str]) {
        let (kinds, trace) = self.run_alike(arguments, policy);
        assert_eq!(kinds, accelerated, "{arguments:?}\n{trace}");
    }

    /// Runs the program with and without the library and asserts that it behaves the same.
    /// Returns the accelerated calls and the trace.
    fn run_alike(&self, arguments: &[&str], policy: &str) -> (Vec<String>, String) {
        let plain = run(&mut self.plain(arguments));
        let (preloaded, trace) = self.traced(arguments, policy);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (with, without) = (text(&preloaded.stdout), text(&plain.stdout));
        let differ = with.lines().zip(without.lines()).find(|(a, b)| a != b);
        assert!(
            with == without,
            "{arguments:?}: differs in {differ:#?}; with the library:\n{with}\nwithout:\n\
             {without}\nstderr:\n{}\ntrace:\n{trace}",
            text(&preloaded.stderr)
        );
        assert_eq!(
            text(&preloaded.stderr),
            text(&plain.stderr),
            "{arguments:?}"
        );
        assert_eq!(preloaded.status, plain.status, "{arguments:?}\n{trace}");
        (kinds(&trace), trace)
    }
}

/// Runs a command and returns its output. The limit of ten minutes is for a program that hangs.
pub fn run(command: &mut Command) -> Output {
    // `env` sets the variables, so that `timeout` itself runs without the library.
    let mut with = Command::new("timeout");
    with.args(["600", "env"]);
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default();
        with.arg(format!("{}={}", name.display(), value.display()));
    }
    with.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        with.current_dir(folder);
    }
    with.output().unwrap()
}

/// Returns the different calls in a trace, sorted by name.
pub fn kinds(trace: &str) -> Vec<String> {
    let mut kinds: Vec<String> = trace
        .lines()
        .filter_map(|line| {
            let (_, call) = line.strip_prefix("bigiron mem: pid ")?.split_once(": ")?;
            let kind = call.split_whitespace().next()?;
            (!call.starts_with("in all")).then(|| kind.to_owned())
        })
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}
