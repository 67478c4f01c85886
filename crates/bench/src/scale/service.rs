//! The time from panic to service, by four ways: with the dump on a disk or in memory, and
//! through the firmware or by kexec (docs/service-first.md).

use serde::Serialize;

use super::costs::{Costs, Kept};
use super::large::{Hardware, dump};

/// Stated: panic to the first process of the capture kernel, in seconds.
pub const TO_CAPTURE: f64 = 10.0;
/// Stated: start of the production kernel to the service, in seconds.
pub const TO_SERVICE: f64 = 20.0;
/// Stated: write rate of memory for dumps, in bytes per second.
pub const MEMORY_RATE: f64 = 10e9;
/// Helpers of bigiron in the capture kernel; makedumpfile has one.
pub const HELPERS: usize = 16;

/// A machine, with the stated time of its firmware.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServiceMachine {
    /// Memory in bytes.
    pub bytes: u64,
    /// Seconds that the firmware takes.
    pub firmware: f64,
}

/// The machines of the table: firmware tests and initializes more memory in more time.
pub const MACHINES: [ServiceMachine; 3] = [
    ServiceMachine {
        bytes: 1_000_000_000_000,
        firmware: 600.0,
    },
    ServiceMachine {
        bytes: 10_000_000_000_000,
        firmware: 1200.0,
    },
    ServiceMachine {
        bytes: 32_000_000_000_000,
        firmware: 2400.0,
    },
];

/// A way from panic to service.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    helpers: usize,
    codec: &'static str,
    in_memory: bool,
    firmware: bool,
}

/// The ways, slowest first.
pub const WAYS: [Way; 4] = [
    Way {
        name: "makedumpfile to disk, firmware",
        helpers: 1,
        codec: "lzo",
        in_memory: false,
        firmware: true,
    },
    Way {
        name: "bigiron to disk, firmware",
        helpers: HELPERS,
        codec: "zstd:1",
        in_memory: false,
        firmware: true,
    },
    Way {
        name: "bigiron to disk, kexec",
        helpers: HELPERS,
        codec: "zstd:1",
        in_memory: false,
        firmware: false,
    },
    Way {
        name: "bigiron to memory, kexec",
        helpers: HELPERS,
        codec: "zstd:1",
        in_memory: true,
        firmware: false,
    },
];

/// A machine by one way.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceRow {
    /// The machine.
    pub machine: ServiceMachine,
    /// The way.
    pub way: &'static str,
    /// Seconds of the dump.
    pub dump: f64,
    /// Seconds from panic to service.
    pub seconds: f64,
}

/// Returns a row for each machine and way; ways whose codec has no costs are left out.
pub fn rows(costs: &Costs, hardware: &Hardware) -> Vec<ServiceRow> {
    let one = |machine: ServiceMachine, way: &Way| {
        let frames = machine.bytes / 4096;
        // As at level 31 of the machine of 32 TB.
        let kept = Kept {
            frames,
            pages: (frames as f64 * 0.03) as u64,
            zero: 0.05,
            equal: 0.02,
        };
        let hardware = Hardware {
            disk_rate: match way.in_memory {
                true => MEMORY_RATE,
                false => hardware.disk_rate,
            },
            ..*hardware
        };
        let codec = costs.codec(way.codec)?;
        let outcome = dump(costs, &hardware, &kept, codec, way.helpers, (1, false));
        let firmware = if way.firmware { machine.firmware } else { 0.0 };
        Some(ServiceRow {
            machine,
            way: way.name,
            dump: outcome.seconds,
            seconds: TO_CAPTURE + outcome.seconds + firmware + TO_SERVICE,
        })
    };
    let all = MACHINES.iter();
    all.flat_map(|machine| WAYS.iter().filter_map(|way| one(*machine, way)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_faster_than_the_one_before_and_no_faster_than_its_stated_stages() {
        let rows = rows(&Costs::stated(), &Hardware::default());
        assert_eq!(rows.len(), MACHINES.len() * WAYS.len());
        for ways in rows.chunks(WAYS.len()) {
            assert!(
                ways.windows(2)
                    .all(|pair| pair[1].seconds <= pair[0].seconds)
            );
            assert!(ways[0].seconds > ways[0].machine.firmware + ways[0].dump);
            assert!(ways[3].seconds < ways[0].seconds / 5.0);
            assert!(ways[3].seconds >= TO_CAPTURE + TO_SERVICE);
        }
        let by_memory = rows.iter().filter(|row| row.way == WAYS[3].name);
        let times: Vec<_> = by_memory.map(|row| row.seconds).collect();
        assert!(times.is_sorted());
    }
}
