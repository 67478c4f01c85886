//! Functions shared by all tests of the program: they run it as a user does, within
//! limits of time and memory, and check that it never panics.

pub mod age;
pub mod sample;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use bigiron_format::ReadAt;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::KdumpHeaders;
use bigiron_kernel::{SECTION_FRAMES, Source};
use bigiron_synth::{ElfImage, ElfShape, Machine, Synth};

/// Time after which a run counts as hung. Most take a tenth of a second on an idle machine.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);
/// Option of dumps whose standard error must be empty: a busy disk may take longer than the
/// default to confirm what was written.
pub const NO_STALL_WARNING: &str = "--stall-warning=86400";
/// Address space that a run may use, in KiB.
const MEMORY_LIMIT: u32 = 600 << 10;

/// A page frame that holds neither page tables nor other data that the dump
/// needs.
pub const PLAIN_FRAME: u64 = 0x410;

/// The machine of most tests: 32 MiB with pages of every class.
const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0x1fff
    pages 0x200 free order=9
    pages 0x400 slab n=64 fill=random
    pages 0x480 cache n=16 ; 0x490 cache private n=4 dirty fill=random
    pages 0x500 slab n=32 fill=zero ; 0x520 slab n=32 fill=const:7
    pages 0x600 thp ; 0x800 hugetlb order=9 ; 0xa00 slab order=2 n=3";

/// Exit code and output of a run.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Outcome {
    /// Asserts the exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stderr: {}", self.stderr);
        self
    }

    /// Asserts that standard error contains each of `parts`.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "no {part:?} in: {}",
                self.stderr
            );
        }
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Returns a path as a command-line argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns a command that runs the program with limited memory.
pub fn command(arguments: &[&str]) -> Command {
    shell("", arguments)
}

/// Returns a command that runs the shell script `prelude`, then the program.
pub fn shell(prelude: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    // The limit is of addresses, of which glibc reserves 64 MiB for each thread's own heap.
    let script =
        format!("ulimit -v {MEMORY_LIMIT}; export MALLOC_ARENA_MAX=2; {prelude} exec \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_bigiron")]);
    command.args(arguments);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

/// Waits until `condition` holds, for as long as `child` runs. Returns false if the child ended first. The child is left
/// unreaped.
#[track_caller]
pub fn wait_while_running(child: &mut Child, condition: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(begin.elapsed() < TIME_LIMIT, "the program hangs");
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Waits for the end of the program.
#[track_caller]
pub fn finish(mut child: Child) -> Outcome {
    let begin = Instant::now();
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take().unwrap();
    let stdout = thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stdout) = &mut stdout {
            stdout.read_to_end(&mut bytes).unwrap();
        }
        bytes
    });
    let stderr = thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > TIME_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the program hangs; stderr: {}", stderr.join().unwrap());
        }
        thread::sleep(Duration::from_millis(2));
    };
    let outcome = Outcome {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    };
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    outcome
}

#[track_caller]
pub fn run(arguments: &[&str]) -> Outcome {
    finish(command(arguments).spawn().unwrap())
}

/// Runs with `input` on standard input.
#[track_caller]
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Outcome {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
    let outcome = finish(child);
    feeder.join().unwrap();
    outcome
}

/// Asserts that a dump is rejected: exit code 1 and a message that names the source.
#[track_caller]
pub fn refused(source: &Path, parts: &[&str]) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let outcome = run(&["dump", arg(source), arg(&output)]).code(1);
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let outcome = outcome.says(&[source.file_name().unwrap().to_str().unwrap()]);
    outcome.says(parts)
}

/// Asserts that all commands on the source end without a panic, with success or an error message.
#[track_caller]
pub fn survives(source: &Path) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    for level in ["0", "1", "31"] {
        let outcome = run(&[
            "dump",
            "-d",
            level,
            arg(source),
            arg(&output),
            "--overwrite",
        ]);
        assert!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
        assert!(outcome.code == Some(0) || !outcome.stderr.is_empty());
    }
    let outcome = run(&["verify", arg(source)]);
    assert!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
    outcome
}

/// Asserts that `bigiron verify` finds the dump incomplete but equal to `source` otherwise.
#[track_caller]
pub fn incomplete_but_equal(dump: &Path, source: &Path) {
    run(&["verify", arg(dump), "--against", arg(source)])
        .code(1)
        .says(&["incomplete but usable", arg(dump)]);
}

/// Returns the machine of most tests.
pub fn machine() -> &'static Machine {
    static MADE: OnceLock<Machine> = OnceLock::new();
    MADE.get_or_init(|| Synth::from_text(MACHINE).unwrap())
}

/// Returns the machine's ELF core.
pub fn image() -> &'static ElfImage {
    static MADE: OnceLock<ElfImage> = OnceLock::new();
    MADE.get_or_init(|| machine().elf_image(&ElfShape::vmcore()))
}

/// A temporary directory with the ELF core in `vmcore`.
pub struct Lab {
    directory: tempfile::TempDir,
    vmcore: PathBuf,
}

impl Lab {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let vmcore = directory.path().join("vmcore");
        let lab = Self { directory, vmcore };
        lab.file("vmcore", &image().bytes);
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn vmcore(&self) -> &Path {
        &self.vmcore
    }

    /// Dumps the core with `options`.
    #[track_caller]
    pub fn dump(&self, name: &str, options: &[&str]) -> PathBuf {
        let output = self.path(name);
        let mut arguments = vec!["dump", "--quiet", "--overwrite"];
        arguments.extend(options);
        arguments.extend([arg(&self.vmcore), arg(&output)]);
        run(&arguments).code(0);
        output
    }
}

/// Returns true for each page frame whose data is in the dump.
pub fn present(path: &Path) -> Vec<bool> {
    let source = Source::open(&[path.to_owned()]).unwrap();
    let memory = source.memory();
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut all = vec![false; memory.end_frame().0 as usize];
    for first in memory.sections() {
        memory.present(first, &mut bits).unwrap();
        for bit in (0..SECTION_FRAMES as usize).filter(|bit| bits.get(*bit)) {
            all[first.0 as usize + bit] = true;
        }
    }
    all
}

/// Returns the offset of a page frame's descriptor in a kdump-compressed file.
pub fn descriptor_of(kdump: &[u8], frame: u64) -> usize {
    let layout = KdumpHeaders::read(kdump).unwrap().layout;
    let bitmap = &kdump[layout.dumped_bitmap() as usize..layout.descriptors() as usize];
    let set = |frame: u64| bitmap[frame as usize / 8] >> (frame % 8) & 1 == 1;
    assert!(set(frame), "page frame {frame:#x} is not in the dump");
    let index = (0..frame).filter(|frame| set(*frame)).count();
    layout.descriptor(index as u64) as usize
}

/// Reads a little-endian 64-bit field.
pub fn field(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    bytes
        .read_exact_at("a field", at as u64, &mut field)
        .unwrap();
    u64::from_le_bytes(field)
}

/// Returns a copy of the bytes with `new` at offset `at`.
pub fn with(bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// A small file system, unmounted on drop.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// Mounts a file system of this size on a new directory. Returns `None` without permission.
    pub fn mount(at: &'a Path, mebibytes: u32) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mut mount = Command::new("mount");
        let size = format!("size={mebibytes}m");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(at);
        let output = mount.output().ok()?;
        output.status.success().then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Creates a named pipe.
#[track_caller]
pub fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
