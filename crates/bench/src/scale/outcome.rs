//! The results of a simulated dump.

use serde::Serialize;

/// Total time of all helpers, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HelperTime {
    /// Reading the source at full speed.
    pub source: f64,
    /// Examining and compressing pages.
    pub cpu: f64,
    /// TLB flushes.
    pub flush: f64,
    /// write().
    pub write: f64,
    /// Waiting for a piece of work.
    pub wait_take: f64,
    /// Waiting for the bus, in addition to the time of the read itself.
    pub wait_bus: f64,
    /// Waiting for the file's lock.
    pub wait_lock: f64,
    /// Waiting for room in the buffer, or for the disk.
    pub wait_disk: f64,
}

impl HelperTime {
    /// Returns the time spent on work.
    pub fn busy(&self) -> f64 {
        self.source + self.cpu + self.flush + self.write
    }
}

/// Fraction of the time in which a resource was in use, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Utilisation {
    /// The helpers' CPUs, average.
    pub cpu: f64,
    /// The memory bus.
    pub bus: f64,
    /// The lock of the file.
    pub lock: f64,
    /// The work queue.
    pub take: f64,
    /// The disks, average.
    pub disks: f64,
}

/// The bottleneck of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// The helpers' work: more helpers would be faster.
    Cpu,
    /// The memory bus.
    Bus,
    /// The lock of the single file.
    Lock,
    /// The work queue.
    Take,
    /// The disks.
    Disks,
}

impl Bottleneck {
    /// Returns the name used in tables.
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
    /// Number of helpers that worked.
    pub helpers: usize,
    /// Total time in seconds.
    pub seconds: f64,
    /// The phases with their durations in seconds: start, the passes, finish.
    pub phases: Vec<(&'static str, f64)>,
    /// Number of bytes written.
    pub bytes: f64,
    /// Time of the helpers.
    pub time: HelperTime,
    /// Utilisation of the resources.
    pub used: Utilisation,
}

impl Outcome {
    /// Returns the resource that was in use most.
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

/// Formats seconds as `h:mm:ss`.
pub fn hours(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Formats seconds as `mm:ss`.
pub fn minutes(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}
