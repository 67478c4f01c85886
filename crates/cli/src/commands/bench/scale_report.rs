//! The tables of `bigiron bench scale`.

use std::fmt::Write as _;

use bigiron_bench::scale::calibrate::Calibration;
use bigiron_bench::scale::check::Row;
use bigiron_bench::scale::costs::{Costs, Kept};
use bigiron_bench::scale::large::{self, Cell, Hardware};
use bigiron_bench::scale::model::Cost;
use bigiron_bench::scale::outcome::{Bottleneck, Outcome, hours, minutes};
use bigiron_bench::scale::{remap, service, solaris, windows};

use crate::size;

/// Formats the measured costs.
pub fn calibration(calibration: &Calibration) -> String {
    let (kept, costs) = (&calibration.kept, &calibration.costs);
    let mut text = format!(
        "Costs ({})\n{} pages kept: {:.1} % zero, {:.1} % equal to another\n\
         {:28} {:>10} {:>10}",
        costs.origin,
        size::group(kept.pages),
        100.0 * kept.zero,
        100.0 * kept.equal,
        "",
        "1 helper",
        "2 helpers"
    );
    for (name, cost, unit, scale) in [
        ("filter, a section", costs.filter, "µs", 1e3),
        ("read, a page", costs.read, "ns", 1.0),
        ("zero, a page", costs.zero, "ns", 1.0),
        ("hash, a page", costs.hash, "ns", 1.0),
        ("compare, an equal page", costs.equal, "ns", 1.0),
    ] {
        line(&mut text, name, cost, unit, scale);
    }
    for codec in &costs.codecs {
        if codec.incompressible_share < 1.0 {
            let name = format!("{}, a page", codec.name);
            line(&mut text, &name, codec.compressible, "ns", 1.0);
        }
        if codec.incompressible_share > 0.0 {
            let name = format!("{}, a page stored raw", codec.name);
            line(&mut text, &name, codec.incompressible, "ns", 1.0);
        }
        let name = format!("{}, write of 1 MB", codec.name);
        line(&mut text, &name, codec.write, "µs", 1e-3);
        let _ = write!(
            text,
            "; a page takes {:.0} bytes, {:.1} % are stored raw",
            codec.bytes(),
            100.0 * codec.incompressible_share
        );
    }
    let disk = if costs.disk_rate.is_finite() {
        format!("{:.2} GB/s to the disk", costs.disk_rate / 1e9)
    } else {
        "no disk limit".into()
    };
    let _ = write!(
        text,
        "\nlock handover {:.1} µs, start {:.1} ms, {disk}",
        costs.hand_over / 1e3,
        costs.start / 1e6
    );
    text
}

fn line(text: &mut String, name: &str, cost: Cost, unit: &str, scale: f64) {
    let _ = write!(
        text,
        "\n{name:28} {:>7.0} {unit} {:>7.0} {unit}",
        cost.alone / scale,
        cost.beside / scale
    );
}

/// Formats predicted and measured dumps.
pub fn check(rows: &[Row]) -> String {
    let mut text = format!(
        "Dumps made on this machine; times are valid only if it is idle, processor times always\n\
         {:8} {:>7}  {:>26}   {:>26}   bound by\n{:16}  {:>9} {:>8} {:>7}   {:>9} {:>8} {:>7}",
        "codec",
        "helpers",
        "time",
        "processor time",
        "",
        "predicted",
        "measured",
        "error",
        "predicted",
        "measured",
        "error"
    );
    for row in rows {
        let _ = write!(
            text,
            "\n{:8} {:>7}  {:>7.2} s {:>6.2} s {:>+5.1} %   {:>7.2} s {:>6.2} s {:>+5.1} %   {}",
            row.codec,
            row.helpers,
            row.predicted,
            row.measured,
            100.0 * row.error(),
            row.predicted_cpu,
            row.measured_cpu,
            100.0 * row.cpu_error(),
            row.bottleneck
        );
    }
    text
}

/// Formats the predictions for Solaris, 2011.
pub fn solaris(predictions: &[solaris::Prediction]) -> String {
    let mut text = format!(
        "Parallel dumps of Solaris (Sistare, Fast Crash Dump, 2011): serial lzjb before, parallel \
         bzip2 after;\nthe disk rate follows from the time before; the time after is predicted\n\
         {:7} {:>5} {:>9} {:>8} {:>10} {:>9} {:>7}   bound by",
        "system", "CPUs", "disk", "before", "model", "measured", "error"
    );
    for prediction in predictions {
        let system = &prediction.system;
        let bottleneck = prediction.after.bottleneck();
        let needed = match prediction.helpers_needed {
            Some(helpers) if bottleneck == Bottleneck::Disks => {
                format!(", from {helpers} helpers on")
            }
            _ => String::new(),
        };
        let _ = write!(
            text,
            "\n{:7} {:>5} {:>4.0} MB/s {:>8} {:>10} {:>9} {:>+5.0} %   {}{needed}",
            system.name,
            system.cpus,
            prediction.disk_rate / 1e6,
            minutes(system.before),
            minutes(prediction.after.seconds),
            minutes(system.after),
            100.0 * prediction.error(),
            bottleneck.name(),
        );
    }
    text
}

/// Formats mmap and read of /proc/vmcore, 2013.
pub fn vmcore_access(rows: &[remap::Row]) -> String {
    let mut text = format!(
        "/proc/vmcore on several CPUs (Hatayama, kexec mailing list, 3 July 2013): speed against \
         one CPU;\nthe cost of another CPU for each window of 4 MiB (mmap) or page (read) follows from the \
         rows of 2 CPUs;\nthose of 4 are predicted\n\
         {:5} {:>5} {:>9} {:>9} {:>7}   one other",
        "", "CPUs", "measured", "model", "error"
    );
    for row in rows.iter().filter(|row| row.cpus > 1) {
        let _ = write!(
            text,
            "\n{:5} {:>5} {:>9.2} {:>9.2} {:>+5.1} %   {:.1} µs",
            row.name,
            row.cpus,
            row.measured,
            row.model,
            100.0 * row.error(),
            row.flush
        );
    }
    text
}

/// Formats mapped windows of /proc/vmcore in two threads.
pub fn mapped_windows(rows: &[windows::Row]) -> String {
    let mut text = format!(
        "Windows of /proc/vmcore in two threads (an emulated capture kernel): speed against one \
         thread;\na TLB flush takes {:.0} µs, by the row of windows of 4 MiB that are read whole\n\
         {:34} {:>9} {:>9} {:>7}",
        1e6 * windows::flush(),
        "",
        "measured",
        "model",
        "error"
    );
    for row in rows {
        let way = if row.windows.maps_all {
            "each thread maps all"
        } else {
            "read whole"
        };
        let _ = write!(
            text,
            "\n{:34} {:>9.2} {:>9.2} {:>+5.1} %",
            format!("{:2} MiB, {way}", row.windows.size >> 20),
            row.measured,
            row.model,
            100.0 * row.error(),
        );
    }
    text
}

fn percent(kept: &Kept, part: f64) -> f64 {
    100.0 * part / kept.frames as f64
}

/// Formats the predictions for a machine of 32 TB.
pub fn large(costs: &Costs, hardware: &Hardware, cells: &[Cell]) -> String {
    let mut text = format!(
        "A machine of 32 TB: disks of {:.1} GB/s, {:.0} GB/s from memory, {} for helpers; costs \
         {}\nh:mm:ss and the bottleneck: cpu, bus, lock (of the file), disk",
        hardware.disk_rate / 1e9,
        hardware.bus_rate / 1e9,
        size::format(hardware.memory),
        costs.origin
    );
    for level in large::LEVELS {
        let kept = large::kept(level);
        let _ = write!(
            text,
            "\n\nlevel {level}: {:.0} % of memory kept, {:.0} % compressed\n\
             {:14} {:>7} {:>16} {:>16} {:>16} {:>16}",
            percent(&kept, kept.pages as f64),
            percent(&kept, kept.stored()),
            "codec",
            "helpers",
            "1 disk",
            "4 disks",
            "16 disks",
            "16, one file"
        );
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.level == level).collect();
        for row in cells.chunks(large::DISKS.len()) {
            let Some(first) = row.first() else { continue };
            let best = first.codec.starts_with("best");
            let name = if best { "best codec" } else { &first.codec };
            let _ = write!(text, "\n{name:14} {:>7}", first.helpers);
            for cell in row {
                let what = match cell.codec.strip_prefix("best: ") {
                    Some(codec) => codec,
                    None => cell.outcome.bottleneck().name(),
                };
                let time = hours(cell.outcome.seconds);
                let _ = write!(text, " {:>16}", format!("{time} {what:4}"));
            }
        }
        text.push_str(&waits(&cells));
    }
    text
}

/// Formats the phases and waits with 64 helpers and 4 disks, as an example.
fn waits(cells: &[&Cell]) -> String {
    let find = |cell: &&&Cell| cell.codec == "zstd:1" && cell.helpers == 64 && cell.disks == 4;
    let Some(cell) = cells.iter().find(find) else {
        return String::new();
    };
    let Outcome {
        time, used, phases, ..
    } = &cell.outcome;
    let all = cell.outcome.seconds * cell.outcome.helpers as f64 / 100.0;
    let phases: Vec<String> = phases
        .iter()
        .map(|(name, seconds)| format!("{name} {}", hours(*seconds)))
        .collect();
    format!(
        "\nzstd:1, 64 helpers, 4 disks: {}; helpers {:.0} % busy, waiting {:.0} % for disks, \
         {:.0} % for the bus,\n{:.0} % for the lock, {:.0} % for work; bus {:.0} % used, disks \
         {:.0} %",
        phases.join(", "),
        time.busy() / all,
        time.wait_disk / all,
        time.wait_bus / all,
        time.wait_lock / all,
        time.wait_take / all,
        100.0 * used.bus,
        100.0 * used.disks
    )
}

/// Formats the times from panic to service.
pub fn service(hardware: &Hardware, rows: &[service::ServiceRow]) -> String {
    let mut text = format!(
        "From panic to service (dump level 31; a disk of {:.1} GB/s; {:.0} s to the capture kernel, {:.0} s from the \
         production kernel to the service, {} helpers)\n{:32} {:>6} {:>9} {:>9} {:>9}",
        hardware.disk_rate / 1e9,
        service::TO_CAPTURE,
        service::TO_SERVICE,
        service::HELPERS,
        "",
        "RAM",
        "firmware",
        "dump",
        "service"
    );
    for row in rows {
        let _ = write!(
            text,
            "\n{:32} {:>3} TB {:>9} {:>9} {:>9}",
            row.way,
            row.machine.bytes / 1_000_000_000_000,
            minutes(row.machine.firmware),
            minutes(row.dump),
            minutes(row.seconds)
        );
    }
    text
}
