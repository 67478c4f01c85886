//! The machine on which a measurement was made.

use std::fs;

use bigiron_helpers::processor_count;
use serde::Serialize;

/// The properties of the machine that affect measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Number of processors available to this process.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Release of the running kernel.
    pub kernel: String,
    /// /proc/loadavg at the start of the measurement, which shows other load.
    pub load: String,
    /// UTC date and time, to the minute.
    pub date: String,
}

impl Machine {
    /// Describes this machine at this time.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let total = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = total
            .trim_end_matches("kB")
            .trim()
            .parse()
            .unwrap_or_default();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpus: processor_count(),
            memory: kib << 10,
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            load: read("/proc/loadavg").trim().to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d-%H%M").to_string(),
        }
    }

    /// Returns one line for the head of a table.
    pub fn line(&self) -> String {
        format!(
            "{} CPUs, {}, {} GiB; Linux {}; load {}; {}",
            self.cpus,
            self.cpu,
            (self.memory + (1 << 29)) >> 30,
            self.kernel,
            self.load,
            self.date
        )
    }
}
