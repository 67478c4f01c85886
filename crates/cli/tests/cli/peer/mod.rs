//! Functions shared by tests of the program under the name makedumpfile: a machine that
//! makedumpfile 1.7.2 supports, and both programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use bigiron_dump::{Comparison, Progress, compare};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;
use bigiron_synth::{ElfShape, Synth};

use crate::common::{Outcome, arg, command, finish};

/// 48 MiB with pages of every class, of a kernel that every makedumpfile supports.
const MACHINE: &str = "kernel 6.1
    ram 0x0-0x9f 0x100-0x2fff
    pages 0x200 free order=9
    pages 0x400 slab n=64 fill=random
    pages 0x480 cache n=16 fill=random ; 0x490 cache private n=4 dirty fill=random
    pages 0x500 slab n=32 fill=zero ; 0x520 slab n=32 fill=const:7
    pages 0x600 thp ; 0x800 hugetlb order=9 ; 0xa00 slab order=2 n=3
    pages 0xc00 slab n=512 fill=random ; 0x2c00 slab n=512 fill=random
    pages 0x1000 free order=10 fill=random ; 0x1400 free order=10 fill=random
    pages 0x1800 free order=10 fill=random ; 0x1c00 free order=10 fill=random
    pages 0x2000 free order=10 fill=random ; 0x2400 free order=10 fill=random";

fn core() -> &'static [u8] {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    // makedumpfile counts the page frames of the kernel's image twice if it
    // has a PT_LOAD of its own.
    let shape = ElfShape {
        image_load: false,
        ..ElfShape::vmcore()
    };
    MADE.get_or_init(|| Synth::from_text(MACHINE).unwrap().elf(&shape))
}

/// Number of times in a row that makedumpfile may abort.
const MAX_ABORTS: usize = 20;

/// A temporary directory with the machine's core in `vmcore`.
pub struct Lab(tempfile::TempDir);

impl Lab {
    pub fn new() -> Self {
        let lab = Self(tempfile::tempdir().unwrap());
        fs::write(lab.path("vmcore"), core()).unwrap();
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Splits `line` into arguments; those that begin with @ are files of this directory.
    fn words(&self, line: &str) -> Vec<String> {
        let name = |word: &str| match word.strip_prefix('@') {
            Some(name) => arg(&self.path(name)).to_owned(),
            None => word.to_owned(),
        };
        line.split_whitespace().map(name).collect()
    }

    /// Runs this program as makedumpfile.
    #[track_caller]
    pub fn ours(&self, line: &str) -> Outcome {
        finish(self.our_command(line).spawn().unwrap())
    }

    pub fn our_command(&self, line: &str) -> Command {
        let words = self.words(line);
        let mut arguments = vec!["makedumpfile"];
        arguments.extend(words.iter().map(String::as_str));
        command(&arguments)
    }

    /// Runs makedumpfile. Its threads sometimes abort because glibc
    /// cannot load libgcc_s for a thread's end; it is then run again.
    #[track_caller]
    pub fn theirs(&self, line: &str) -> Outcome {
        let run = || finish(self.their_command(line).spawn().unwrap());
        let aborted = |outcome: &Outcome| {
            outcome.code.is_none() && outcome.stderr.contains("libgcc_s.so.1 must be installed")
        };
        let mut outcome = run();
        for _ in 0..MAX_ABORTS {
            if !aborted(&outcome) {
                break;
            }
            outcome = run();
        }
        outcome
    }

    pub fn their_command(&self, line: &str) -> Command {
        let mut command = Command::new("makedumpfile");
        command
            .args(self.words(line))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Asserts that both dumps have the same pages with the same bytes.
    #[track_caller]
    pub fn same_pages(&self, one: &str, other: &str) {
        let found = compared(&self.path(one), &self.path(other));
        assert!(found.is_equal(), "{one} and {other}: {found:?}");
        assert!(found.equal > 0, "{one} and {other} are empty");
    }
}

pub fn compared(one: &Path, other: &Path) -> Comparison {
    let open = |path: &Path| Source::open(&[path.to_owned()]).unwrap();
    let (one, other) = (open(one), open(other));
    let (progress, stop) = (Progress::new(), Stop::new());
    compare(one.memory(), other.memory(), 2, &progress, &stop).unwrap()
}

/// Returns true if makedumpfile is installed; prints that the test is skipped if not.
pub fn installed() -> bool {
    let found = Command::new("makedumpfile").arg("-v").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: makedumpfile is not installed");
    }
    found
}

/// Returns the output without the message about the kernel's version, which only makedumpfile prints.
pub fn said(outcome: &Outcome) -> String {
    outcome.text().replace(
        "The kernel version is not supported.\nThe makedumpfile operation may be incomplete.\n",
        "",
    )
}
