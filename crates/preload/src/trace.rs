//! Reports accelerated calls: a line for each call, and a line of totals at the end.

use std::fmt::{self, Display, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bigiron_memory::Outcome;
use bigiron_memory::call::HeldSignals;
use bigiron_memory::policy::{Policy, Trace};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::getpid;

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mmap,
    Munmap,
    Madvise,
    Mlock,
    Mlockall,
    Shmat,
    Shmdt,
    Shmctl,
    Allocate,
    Exit,
}

const KINDS: [(Kind, &str); 10] = [
    (Kind::Mmap, "mmap"),
    (Kind::Munmap, "munmap"),
    (Kind::Madvise, "madvise"),
    (Kind::Mlock, "mlock"),
    (Kind::Mlockall, "mlockall"),
    (Kind::Shmat, "shmat"),
    (Kind::Shmdt, "shmdt"),
    (Kind::Shmctl, "shmctl"),
    (Kind::Allocate, "memalign"),
    (Kind::Exit, "exit"),
];

impl Kind {
    fn name(self) -> &'static str {
        let mut kinds = KINDS.iter();
        kinds
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }
}

/// Totals of one kind of call.
struct Total {
    calls: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
    saved: AtomicU64,
}

static TOTALS: [Total; KINDS.len()] = [const {
    Total {
        calls: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        nanoseconds: AtomicU64::new(0),
        saved: AtomicU64::new(0),
    }
}; KINDS.len()];

/// PID of the process that the totals belong to. The child of a fork starts with new totals.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The program's name, truncated as in the kernel.
static NAME: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Reads the program's name.
pub(crate) fn prepare() {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let mut words = [0_u8; 16];
    for (place, byte) in words.iter_mut().zip(name.trim_ascii_end()) {
        *place = *byte;
    }
    let (words, _) = words.as_chunks::<8>();
    for (place, word) in NAME.iter().zip(words) {
        place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
}

/// Returns the address of the totals, which must stay until the end.
pub(crate) fn address() -> usize {
    (&raw const TOTALS).addr()
}

/// Reports a call, if helpers did any work for it.
pub(crate) fn write_call(policy: &Policy, kind: Kind, outcome: Option<Outcome>) {
    let Some(outcome) = outcome.filter(|outcome| outcome.bytes > 0 && policy.trace != Trace::No)
    else {
        return;
    };
    count(kind, &outcome);
    let mut line = Line::begin();
    let helpers = outcome.helpers;
    let _ = write!(
        line,
        "{} {}, {helpers} {}, {}",
        kind.name(),
        Size(outcome.bytes as u64),
        if helpers == 1 { "helper" } else { "helpers" },
        Time(outcome.elapsed),
    );
    let _ = match outcome.error {
        Some(error) => write!(line, ", ended early: errno {}", error.raw_os_error()),
        None => write!(line, ", saved about {}", Time(outcome.saved())),
    };
    line.write(&policy.trace);
}

fn count(kind: Kind, outcome: &Outcome) {
    let process = getpid().as_raw_pid().unsigned_abs();
    if OWNER.swap(process, Ordering::Relaxed) != process {
        for total in &TOTALS {
            for number in [&total.calls, &total.bytes, &total.nanoseconds, &total.saved] {
                number.store(0, Ordering::Relaxed);
            }
        }
    }
    if let Some(total) = TOTALS.get(kind as usize) {
        let add = |number: &AtomicU64, amount: u64| number.fetch_add(amount, Ordering::Relaxed);
        add(&total.calls, 1);
        add(&total.bytes, outcome.bytes as u64);
        add(&total.nanoseconds, outcome.elapsed.as_nanos() as u64);
        add(&total.saved, outcome.saved().as_nanos() as u64);
    }
}

/// Reports the totals of this process, if there were any calls.
pub(crate) fn write_totals(policy: &Policy) {
    let process = getpid().as_raw_pid().unsigned_abs();
    if policy.trace == Trace::No || OWNER.load(Ordering::Relaxed) != process {
        return;
    }
    let mut line = Line::begin();
    let _ = line.write_str("in all");
    let mut separator = ": ";
    for ((_, name), total) in KINDS.iter().zip(&TOTALS) {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let calls = get(&total.calls);
        if calls > 0 {
            let _ = write!(
                line,
                "{separator}{calls} {name} {} {} saved about {}",
                Size(get(&total.bytes)),
                Time(Duration::from_nanos(get(&total.nanoseconds))),
                Time(Duration::from_nanos(get(&total.saved))),
            );
            separator = "; ";
        }
    }
    line.write(&policy.trace);
}

/// A line that is formatted on the stack and written by one call. Excess text is cut.
struct Line {
    bytes: [u8; 1024],
    length: usize,
}

impl Line {
    fn begin() -> Self {
        let mut line = Self {
            bytes: [0; 1024],
            length: 0,
        };
        let process = getpid().as_raw_pid();
        let _ = write!(line, "bigiron mem: pid {process} {Name}: ");
        line
    }

    fn write(mut self, trace: &Trace) {
        let end = self.length.min(self.bytes.len() - 1);
        if let Some(place) = self.bytes.get_mut(end) {
            *place = b'\n';
        }
        let text = self.bytes.get(..=end).unwrap_or_default();
        match trace {
            Trace::No => {}
            Trace::StandardError => {
                let _ = rustix::io::write(rustix::stdio::stderr(), text);
            }
            Trace::File(path) => {
                // A handler that jumps away would leave the file open.
                let _signals = HeldSignals::hold();
                let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
                let flags = flags | OFlags::NOCTTY;
                if let Ok(file) = open(path.as_c_str(), flags, Mode::RUSR | Mode::WUSR) {
                    let _ = rustix::io::write(&file, text);
                }
            }
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let place = self.bytes.get_mut(self.length).ok_or(fmt::Error)?;
            *place = byte;
            self.length += 1;
        }
        Ok(())
    }
}

/// The program's name. Bytes that would corrupt a line are replaced by question marks.
struct Name;

impl Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = NAME
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        words
            .take_while(|byte| *byte != 0)
            .map(char::from)
            .map(|byte| if byte.is_ascii_graphic() { byte } else { '?' })
            .try_for_each(|byte| formatter.write_char(byte))
    }
}

/// A size in bytes, with a unit.
struct Size(u64);

impl Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let mut units = UNITS.iter();
        let Some((shift, unit)) = units.find(|(shift, _)| self.0 >> shift > 0) else {
            return write!(formatter, "{} bytes", self.0);
        };
        // In tenths, without floating-point arithmetic.
        let tenths = (u128::from(self.0) * 10) >> shift;
        write!(formatter, "{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// A time in seconds, with three digits.
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        write!(
            formatter,
            "{}.{:03} s",
            milliseconds / 1000,
            milliseconds % 1000
        )
    }
}
