//! The policy: which calls are accelerated, and how. Keys and values come from a file, the
//! command line or the environment, and are parsed without allocating.

use crate::engine::Settings;

/// Environment variable of `bigiron mem run` and the preload library, with a policy in one
/// line.
pub const VARIABLE: &str = "BIGIRON_MEM";

/// Maximum length of the path of a trace, including the NUL.
const PATH: usize = 256;

/// Treatment by `shmat` of a large segment that this process has just created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Only attach it.
    Plain,
    /// Also request huge pages, if programs may.
    Huge,
    /// Also populate it, if enough free memory remains.
    Create,
    /// Also lock it, like an ISM segment of Solaris.
    Lock,
}

/// Method of freeing memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroy {
    /// Only the kernel's call.
    Plain,
    /// Helpers first tear down page tables and free private pages.
    Parallel,
    /// Also, a reaper process does the work of a single processor while the caller continues.
    Reaper,
}

/// Destination of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // one of it in a process, and nothing may allocate
pub enum Trace {
    /// No trace.
    No,
    /// Standard error.
    StandardError,
    /// Appended to a file.
    File(Path),
}

/// A NUL-terminated path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path([u8; PATH]);

impl Path {
    fn new(path: &str) -> Option<Self> {
        let mut bytes = [0; PATH];
        let room = bytes.get_mut(..PATH - 1)?.get_mut(..path.len())?;
        room.copy_from_slice(path.as_bytes());
        (!path.is_empty()).then_some(Self(bytes))
    }

    /// Returns the path for a system call.
    pub fn as_c_str(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Which calls are accelerated, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// True if any call is accelerated.
    pub enabled: bool,
    /// Settings of the engine.
    pub settings: Settings,
    /// True if huge pages are requested for memory that is populated as a whole.
    pub huge: bool,
    /// Treatment of new segments by `shmat`.
    pub attach: Attach,
    /// True if SHM_LOCK populates the pages that it locks. Linux leaves that to the first
    /// access.
    pub create_locked: bool,
    /// True if `mlock`, `mlock2` and `mlockall` are accelerated.
    pub lock: bool,
    /// True if large aligned blocks of an allocator are accelerated even though other threads
    /// may map memory at the same time.
    pub aligned_beside_others: bool,
    /// True if `mmap` with MAP_POPULATE or MAP_LOCKED is accelerated.
    pub populate: bool,
    /// Treatment of `shmdt`, IPC_RMID and `munmap`.
    pub destroy: Destroy,
    /// True if helpers free memory at the end of the program.
    pub exit: bool,
    /// Destination of the trace.
    pub trace: Trace,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            enabled: true,
            settings: Settings::default(),
            huge: true,
            attach: Attach::Create,
            create_locked: true,
            lock: true,
            aligned_beside_others: false,
            populate: true,
            destroy: Destroy::Reaper,
            exit: true,
            trace: Trace::No,
        }
    }
}

/// The first invalid assignment of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAssignment<'a> {
    /// Text of the assignment.
    pub text: &'a str,
    /// Expected form.
    pub expected: &'static str,
}

impl std::fmt::Display for InvalidAssignment<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}`: expected {}", self.text, self.expected)
    }
}

/// A key of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Permitted values.
    pub values: &'static str,
    /// Description in one line.
    pub meaning: &'static str,
    set: fn(&mut Policy, &str) -> Option<()>,
}

/// All keys. The parser, the help text and the documentation use this table.
pub const KEYS: [Key; 13] = [
    Key {
        name: "enabled",
        values: "yes or no",
        meaning: "no: every call is the plain one",
        set: |policy, value| put(&mut policy.enabled, yes_or_no(value)),
    },
    Key {
        name: "helpers",
        values: "a number from 1 to 64",
        meaning: "the maximum number of helpers of one operation, including the caller",
        set: |policy, value| {
            let helpers = value
                .parse()
                .ok()
                .filter(|count| (1..=64).contains(count))?;
            put(&mut policy.settings.helpers, Some(helpers))
        },
    },
    Key {
        name: "threshold",
        values: "a size such as 8M",
        meaning: "smaller requests go straight to the kernel",
        set: |policy, value| put(&mut policy.settings.straight_below, size(value)),
    },
    Key {
        name: "chunk",
        values: "a power of two from 64K to 1G",
        meaning: "the size of the slice that a helper handles at a time",
        set: |policy, value| {
            let slice = size(value).filter(|size| (64 << 10..=1 << 30).contains(size))?;
            put(
                &mut policy.settings.slice,
                Some(slice).filter(|size| size.is_power_of_two()),
            )
        },
    },
    Key {
        name: "numa",
        values: "local or spread",
        meaning: "the source of memory without a mempolicy: the caller's node, or all nodes",
        set: |policy, value| {
            put(
                &mut policy.settings.spread,
                choice(value, [("local", false), ("spread", true)]),
            )
        },
    },
    Key {
        name: "huge",
        values: "auto or never",
        meaning: "auto: requests huge pages, where programs may, for memory that is populated as a whole",
        set: |policy, value| {
            put(
                &mut policy.huge,
                choice(value, [("auto", true), ("never", false)]),
            )
        },
    },
    Key {
        name: "attach",
        values: "plain, huge, create or lock",
        meaning: "shmat of a segment that this process created: also request huge pages, populate it, lock it",
        set: |policy, value| {
            let choices = [
                ("plain", Attach::Plain),
                ("huge", Attach::Huge),
                ("create", Attach::Create),
                ("lock", Attach::Lock),
            ];
            put(&mut policy.attach, choice(value, choices))
        },
    },
    Key {
        name: "shm-lock",
        values: "plain or create",
        meaning: "shmctl(SHM_LOCK): create populates the pages that it locks",
        set: |policy, value| {
            put(
                &mut policy.create_locked,
                choice(value, [("plain", false), ("create", true)]),
            )
        },
    },
    Key {
        name: "lock",
        values: "plain or parallel",
        meaning: "mlock, mlock2, mlockall",
        set: |policy, value| put(&mut policy.lock, plain_or_parallel(value)),
    },
    Key {
        name: "memalign",
        values: "alone or always",
        meaning: "large posix_memalign, aligned_alloc, memalign after mlockall(MCL_FUTURE): in programs of one thread, or always",
        set: |policy, value| {
            put(
                &mut policy.aligned_beside_others,
                choice(value, [("alone", false), ("always", true)]),
            )
        },
    },
    Key {
        name: "populate",
        values: "plain or parallel",
        meaning: "mmap with MAP_POPULATE or MAP_LOCKED",
        set: |policy, value| put(&mut policy.populate, plain_or_parallel(value)),
    },
    Key {
        name: "destroy",
        values: "plain, parallel or reaper",
        meaning: "shmdt, IPC_RMID and munmap; reaper: the caller does not wait for the work of a single processor",
        set: |policy, value| {
            let choices = [
                ("plain", Destroy::Plain),
                ("parallel", Destroy::Parallel),
                ("reaper", Destroy::Reaper),
            ];
            put(&mut policy.destroy, choice(value, choices))
        },
    },
    Key {
        name: "exit",
        values: "plain or parallel",
        meaning: "the end of the program",
        set: |policy, value| put(&mut policy.exit, plain_or_parallel(value)),
    },
];

impl Policy {
    /// Applies assignments `key=value`, separated by commas or newlines; `#` starts a comment.
    /// Those before an invalid one take effect.
    pub fn change<'a>(&mut self, text: &'a str) -> Result<(), InvalidAssignment<'a>> {
        text.lines()
            .map(|line| line.split('#').next().unwrap_or(""))
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .filter(|assignment| !assignment.is_empty())
            .try_for_each(|assignment| self.assign(assignment))
    }

    fn assign<'a>(&mut self, text: &'a str) -> Result<(), InvalidAssignment<'a>> {
        let wrong = |expected| InvalidAssignment { text, expected };
        let (name, value) = text.split_once('=').ok_or(wrong("key=value"))?;
        let (name, value) = (name.trim(), value.trim());
        if name == "trace" {
            let trace = match value {
                "no" => Some(Trace::No),
                "stderr" => Some(Trace::StandardError),
                path => Path::new(path).map(Trace::File),
            };
            self.trace = trace.ok_or(wrong("no, stderr or a path of at most 255 bytes"))?;
            return Ok(());
        }
        let key = KEYS.iter().find(|key| key.name == name).ok_or(wrong(
            "a key such as helpers, threshold or huge (see bigiron mem run --help)",
        ))?;
        (key.set)(self, value).ok_or(wrong(key.values))
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn choice<T, const N: usize>(value: &str, choices: [(&str, T); N]) -> Option<T> {
    let mut choices = choices.into_iter();
    choices.find_map(|(name, choice)| (name == value).then_some(choice))
}

fn yes_or_no(value: &str) -> Option<bool> {
    choice(value, [("yes", true), ("no", false)])
}

fn plain_or_parallel(value: &str) -> Option<bool> {
    choice(value, [("plain", false), ("parallel", true)])
}

/// Parses a size in bytes, optionally with the suffix K, M, G or T (powers of 1024).
fn size(text: &str) -> Option<usize> {
    let text = text.trim_end_matches("iB");
    let unit = text.bytes().last()?.to_ascii_uppercase();
    let shift = b"KMGT".iter().position(|letter| *letter == unit);
    let (digits, shift) = match shift {
        Some(at) => (text.get(..text.len() - 1)?, 10 * (at as u32 + 1)),
        None => (text, 0),
    };
    let number: usize = digits.parse().ok()?;
    number.checked_mul(1_usize.checked_shl(shift)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(text: &str) -> Policy {
        let mut policy = Policy::default();
        policy.change(text).unwrap();
        policy
    }

    #[test]
    fn assignments_change_the_named_keys() {
        let text = "helpers=3, threshold = 64K\n# nothing\nattach=lock # all of it\n\nexit=plain,trace=/tmp/t";
        let changed = policy(text);
        assert_eq!(changed.settings.helpers, 3);
        assert_eq!(changed.settings.straight_below, 64 << 10);
        assert_eq!(changed.attach, Attach::Lock);
        assert!(!changed.exit && changed.huge);
        let Trace::File(path) = changed.trace else {
            panic!("{:?}", changed.trace);
        };
        assert_eq!(path.as_c_str(), c"/tmp/t");
        assert_eq!(policy(""), Policy::default());
    }

    #[test]
    fn every_key_rejects_invalid_values() {
        for key in KEYS {
            let text = format!("{}=nonsense", key.name);
            let wrong = Policy::default().change(&text).unwrap_err().to_string();
            assert!(wrong.contains(key.values), "{wrong}");
        }
        for text in [
            "helpers",
            "helpers=0",
            "helpers=65",
            "chunk=3M",
            "threshold=99999999999T",
            "speed=11",
            "trace=",
        ] {
            assert!(Policy::default().change(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("2m"), Some(2 << 20));
        assert_eq!(size("1GiB"), Some(1 << 30));
        assert_eq!(size("M"), None);
        assert_eq!(size(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in ".{0,80}") {
            let _ = Policy::default().change(&text);
        }
    }
}
