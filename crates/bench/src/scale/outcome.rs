//! What came out of a simulated dump.

use serde::Serialize;

/// Time of all helpers together, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HelperTime {
    /// Reading the source, at full speed.
    pub source: f64,
    /// Looking at pages and compressing them.
    pub cpu: f64,
    /// TLB flushes.
    pub flush: f64,
    /// write().
    pub write: f64,
    /// Waiting for a piece of work.
    pub wait_take: f64,
    /// Waiting for the bus, beyond the time of the reading itself.
    pub wait_bus: f64,
    /// Waiting for the file's lock.
    pub wait_lock: f64,
    /// Waiting for room in the buffer, or for the disk itself.
    pub wait_disk: f64,
}

impl HelperTime {
    /// What was work.
    pub fn busy(&self) -> f64 {
        self.source + self.cpu + self.flush + self.write
    }
}

/// The part of the time that something was in use, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Utilisation {
    /// The helpers' CPUs, on average.
    pub cpu: f64,
    /// The memory bus.
    pub bus: f64,
    /// The lock of the file.
    pub lock: f64,
    /// The place where work is taken.
    pub take: f64,
    /// The disks, on average.
    pub disks: f64,
}

/// What bounds a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// The helpers' own work: more of them would help.
    Cpu,
    /// The memory bus.
    Bus,
    /// The lock of the one file.
    Lock,
    /// The place where work is taken.
    Take,
    /// The disks.
    Disks,
}

impl Bottleneck {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Bus => "bus",
            Self::Lock => "lock",
            Self::Take => "take",
            Self::Disks => "disk",
        }
    }
}

/// A simulated dump.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Helpers that worked.
    pub helpers: usize,
    /// All of it, in seconds.
    pub seconds: f64,
    /// The phases and their seconds: start, the passes, finish.
    pub phases: Vec<(&'static str, f64)>,
    /// Bytes written.
    pub bytes: f64,
    /// What the helpers did.
    pub time: HelperTime,
    /// What was in use.
    pub used: Utilisation,
}

impl Outcome {
    /// What was in use most.
    pub fn bottleneck(&self) -> Bottleneck {
        let used = &self.used;
        let mut most = (Bottleneck::Cpu, used.cpu);
        for (what, part) in [
            (Bottleneck::Bus, used.bus),
            (Bottleneck::Lock, used.lock),
            (Bottleneck::Take, used.take),
            (Bottleneck::Disks, used.disks),
        ] {
            if part > most.1 {
                most = (what, part);
            }
        }
        most.0
    }
}

/// Writes seconds as `h:mm:ss`.
pub fn hours(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Writes seconds as `mm:ss`.
pub fn minutes(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}
