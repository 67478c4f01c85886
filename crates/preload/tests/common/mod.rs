//! Programs in C, run with the library and without.
#![allow(dead_code)] // each test uses some of it
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Small sizes are shared too, and nothing is done that the program does not ask for.
pub const SMALL: &str = "threshold=64K,chunk=64K,huge=never,attach=plain,exit=plain";

/// The same, and the end too.
pub const SMALL_TO_THE_END: &str = "threshold=64K,chunk=64K,huge=never,attach=plain,exit=parallel";

/// The library, where cargo puts it for a test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("libbigiron_preload.so"));
    places.find(|place| place.exists()).unwrap_or_else(|| {
        panic!("no libbigiron_preload.so beside {}", test.display());
    })
}

/// A program of `programs/`, compiled.
pub struct Program {
    folder: TempDir,
    binary: PathBuf,
}

impl Program {
    /// Compiles `programs/NAME.c`; `None`, with a word about it, where there is no compiler.
    pub fn compile(name: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
        let binary = folder.path().join(name);
        let compiler = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .args([&binary, &source])
            .output();
        let Ok(compiler) = compiler else {
            println!("skipped: no C compiler `cc` to make {name} with");
            return None;
        };
        let errors = String::from_utf8_lossy(&compiler.stderr);
        assert!(compiler.status.success(), "{errors}");
        Some(Self { folder, binary })
    }

    /// A place for files of this test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program with some arguments, without the library.
    pub fn plain(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.folder());
        command
    }

    /// The same with the library and a policy.
    pub fn preloaded(&self, arguments: &[&str], policy: &str) -> Command {
        let mut command = self.plain(arguments);
        command
            .env("LD_PRELOAD", library())
            .env("BIGIRON_MEM", policy);
        command
    }

    /// With the library, and what it traced.
    pub fn traced(&self, arguments: &[&str], policy: &str) -> (Output, String) {
        let trace = self.folder().join("trace");
        // A program that becomes another user goes on writing there.
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

    /// Asserts that the program does the same with the library as without, and that these
    /// calls were accelerated, and no others.
    pub fn same(&self, arguments: &[&str], policy: &str, accelerated: &[&str]) {
        let (kinds, trace) = self.run_alike(arguments, policy);
        assert_eq!(kinds, accelerated, "{arguments:?}\n{trace}");
    }

    /// The same where calls may be accelerated or not: whether they were.
    pub fn same_with_or_without(
        &self,
        arguments: &[&str],
        policy: &str,
        accelerated: &[&str],
    ) -> bool {
        let (kinds, trace) = self.run_alike(arguments, policy);
        assert!(
            kinds.is_empty() || kinds == accelerated,
            "{arguments:?}\n{trace}"
        );
        !kinds.is_empty()
    }

    /// Runs the program with the library and without, which must do the same: the calls that
    /// were accelerated, and the trace.
    fn run_alike(&self, arguments: &[&str], policy: &str) -> (Vec<String>, String) {
        let plain = run(&mut self.plain(arguments));
        let (preloaded, trace) = self.traced(arguments, policy);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (with, without) = (text(&preloaded.stdout), text(&plain.stdout));
        let differ = with.lines().zip(without.lines()).find(|(a, b)| a != b);
        assert!(
            with == without,
            "{arguments:?}: differs in {differ:#?}; all of it:\n{with}\nwithout the library:\n\
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

/// Its output, within a minute.
pub fn run(command: &mut Command) -> Output {
    // The limit itself is without the library, which `env` puts in front of the program.
    let mut with = Command::new("timeout");
    with.args(["60", "env"]);
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

/// The calls of a trace, each once, in order of their names.
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
