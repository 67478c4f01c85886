//! What is to be accelerated, and how: keys and values from a file, the command
//! line or the environment. Parsed without allocating.

use crate::engine::Settings;

/// The environment variable of `bigiron mem run` and the preload library: a policy in one line.
pub const VARIABLE: &str = "BIGIRON_MEM";

/// Room for the path of a trace.
const PATH: usize = 256;

/// What `shmat` does with a large segment that this process has just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Attaches it.
    Plain,
    /// Asks for huge pages too, where programs may.
    Huge,
    /// And makes its pages, if they fit well into free memory.
    Create,
    /// And locks them, as an ISM segment of Solaris.
    Lock,
}

/// How memory is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroy {
    /// By the kernel's call alone.
    Plain,
    /// Its pages by helpers first.
    Parallel,
    /// And what must be done by one, by a process of its own, while the caller goes on.
    Reaper,
}

/// Where a program's gain is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // one of it in a process, and nothing may allocate
pub enum Trace {
    /// Nowhere.
    No,
    /// On its standard error.
    StandardError,
    /// At the end of a file.
    File(Path),
}

/// The path of a file, NUL at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path([u8; PATH]);

impl Path {
    fn new(path: &str) -> Option<Self> {
        let mut bytes = [0; PATH];
        let room = bytes.get_mut(..PATH - 1)?.get_mut(..path.len())?;
        room.copy_from_slice(path.as_bytes());
        (!path.is_empty()).then_some(Self(bytes))
    }

    /// For a system call.
    pub fn as_c_str(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// What is to be accelerated, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether anything is.
    pub enabled: bool,
    /// How operations are shared.
    pub settings: Settings,
    /// Whether huge pages are asked for, where all of the memory is made at once anyway.
    pub huge: bool,
    /// What becomes of `shmat`.
    pub attach: Attach,
    /// Whether SHM_LOCK makes the pages that it locks, which Linux leaves to the first touch.
    pub create_locked: bool,
    /// Whether `mlock`, `mlock2` and `mlockall` are shared.
    pub lock: bool,
    /// Whether that goes for large aligned blocks of an allocator too where other threads may
    /// map memory at the same time.
    pub aligned_beside_others: bool,
    /// Whether `mmap` with MAP_POPULATE or MAP_LOCKED is shared.
    pub populate: bool,
    /// What becomes of `shmdt`, IPC_RMID and `munmap`.
    pub destroy: Destroy,
    /// Whether memory is given back by helpers at the program's end.
    pub exit: bool,
    /// Where the gain is told.
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

/// The first thing in a policy that is not understood, and what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misunderstood<'a> {
    /// The assignment.
    pub text: &'a str,
    /// What stands there in a policy that is understood.
    pub expected: &'static str,
}

impl std::fmt::Display for Misunderstood<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}`: expected {}", self.text, self.expected)
    }
}

/// A key of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The values that it takes.
    pub values: &'static str,
    /// What it does, in a line.
    pub meaning: &'static str,
    set: fn(&mut Policy, &str) -> Option<()>,
}

/// All keys: the parser, the help and the documentation go by this table.
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
        meaning: "the most helpers of one operation, the caller among them",
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
        meaning: "what a helper takes at a time",
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
        meaning: "where memory without a policy of its own comes from: the caller's node, or all",
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
        meaning: "auto: asks for huge pages where programs may, for memory that is made as a whole",
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
        meaning: "shmat of a segment that this process made: also ask for huge pages, make its pages, lock them",
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
        meaning: "shmctl(SHM_LOCK): create makes the pages that it locks",
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
        meaning: "shmdt, IPC_RMID and munmap; reaper: the caller does not wait for what one processor must do",
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
    /// Changes what `text` says: assignments `key=value`, parted by commas or ends of
    /// lines; from `#` to the end of a line is comment. What comes before a
    /// mistake counts.
    pub fn change<'a>(&mut self, text: &'a str) -> Result<(), Misunderstood<'a>> {
        text.lines()
            .map(|line| line.split('#').next().unwrap_or(""))
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .filter(|assignment| !assignment.is_empty())
            .try_for_each(|assignment| self.assign(assignment))
    }

    fn assign<'a>(&mut self, text: &'a str) -> Result<(), Misunderstood<'a>> {
        let wrong = |expected| Misunderstood { text, expected };
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

/// A size in bytes, or with K, M, G or T behind it, by powers of 1024.
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
    fn assignments_change_what_they_name() {
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
    fn every_key_refuses_what_it_does_not_know() {
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
        fn anything_is_understood_or_refused(text in ".{0,80}") {
            let _ = Policy::default().change(&text);
        }
    }
}
