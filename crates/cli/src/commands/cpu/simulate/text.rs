//! Text output of `bigiron cpu simulate`.

use std::fmt::Write as _;

use bigiron_cpu::simulate::{KernelName, Rcu};

use super::results::{Basis, GrowthResults, MachineResults};

/// Returns a line with the origin of the costs and the kernel of the span check.
pub(super) fn origin(basis: &Basis, against: KernelName) -> String {
    format!(
        "Costs of {}; span check of Linux {}",
        basis.of,
        against.number()
    )
}

/// Returns the text for one machine.
pub(super) fn machine(everything: &MachineResults) -> String {
    let mut out = String::new();
    let answer = &everything.answer;
    let Some(first) = answer.rows.first() else {
        return out;
    };
    let (cpus, offlined) = (first.simulation.cpus, first.simulation.offlined);
    let _ = writeln!(out, "Model: {offlined} of {cpus} CPUs go offline");
    let _ = writeln!(out, "costs of {}", everything.basis.of);
    if answer.extrapolated {
        let _ = writeln!(
            out,
            "extrapolated: {cpus} CPUs; costs are known for {}",
            known(everything.basis.known.fewest, everything.basis.known.most)
        );
    }
    if offlined == 0 {
        let _ = writeln!(out, "no core has more than one hardware thread");
    } else {
        rows(&mut out, everything);
    }
    origins(&mut out, &everything.basis);
    history(&mut out, everything);
    out
}

fn rows(out: &mut String, everything: &MachineResults) {
    let answer = &everything.answer;
    let _ = writeln!(
        out,
        "\n{:<43} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  {:<8} {:>8}",
        "export of domains",
        "total",
        "hotplug",
        "RCU",
        "build",
        "check",
        "show",
        "largest",
        "speedup"
    );
    for row in &answer.rows {
        let total = &row.simulation.total;
        let _ = writeln!(
            out,
            "{:<43} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  {:<8} {:>7.1}x",
            row.what,
            duration(total.total()),
            seconds(total.hotplug),
            seconds(total.rcu),
            seconds(total.build),
            seconds(total.span_check),
            seconds(total.export),
            row.largest,
            row.speedup
        );
    }
    let _ = writeln!(
        out,
        "seconds; speedup relative to Linux {} with defaults, {}",
        answer.against.number(),
        duration(answer.as_it_is)
    );
}

/// Returns the text for machines of all sizes.
pub(super) fn growth(sizes: &GrowthResults) -> String {
    let mut out = String::new();
    let growth = &sizes.growth;
    let _ = writeln!(
        out,
        "Model: one thread per core stays online\n{}",
        origin(&sizes.basis, sizes.against)
    );
    let _ = writeln!(
        out,
        "*: extrapolated; costs are known for {}\n",
        known(sizes.known.fewest, sizes.known.most)
    );
    let _ = write!(out, "{:<28}", "CPUs");
    for point in &growth.points {
        let mark = if point.extrapolated { "*" } else { "" };
        let _ = write!(out, " {:>9}", format!("{}{mark}", point.cpus));
    }
    out.push('\n');
    for (number, way) in growth.ways.iter().enumerate() {
        let pace = match way.kernel.rcu {
            Rcu::Normal => "",
            Rcu::Expedited => ", RCU expedited",
        };
        let _ = write!(out, "{:<28}", format!("{}{pace}", way.strategy));
        for point in &growth.points {
            let seconds = point.seconds.get(number).copied().unwrap_or(0.0);
            let _ = write!(out, " {:>9}", duration(seconds));
        }
        out.push('\n');
    }
    origins(&mut out, &sizes.basis);
    out
}

#[cfg(feature = "hotplug")]
fn origins(out: &mut String, basis: &Basis) {
    if basis.origins.is_empty() {
        return;
    }
    let costs = serde_json::to_value(basis.costs).unwrap_or_default();
    out.push_str("\ncosts\n");
    for origin in &basis.origins {
        let _ = writeln!(out, "  {}: {}", origin.how.words(), origin.by);
        for name in &origin.costs {
            let cost = costs.get(*name).and_then(serde_json::Value::as_f64);
            let cost = match (*name, cost.unwrap_or(0.0)) {
                ("grace_periods", number) => format!("{number}"),
                (_, seconds) => short(seconds),
            };
            let _ = writeln!(out, "    {name:<24} {cost:>10}");
        }
    }
}

#[cfg(not(feature = "hotplug"))]
fn origins(_: &mut String, _: &Basis) {}

fn history(out: &mut String, everything: &MachineResults) {
    let mut table = "";
    for row in &everything.history {
        if row.table != table {
            table = row.table;
            let _ = writeln!(
                out,
                "\n{table:<44} {:>11} {:>11} {:>7}",
                "published", "model", "error"
            );
        }
        let _ = writeln!(
            out,
            "  {:<42} {:>9.3} s {:>9.3} s {:>+6.1}%",
            row.what,
            row.published,
            row.model,
            row.error() * 100.0
        );
    }
}

fn known(fewest: usize, most: usize) -> String {
    match fewest == most {
        true => format!("{most} CPUs"),
        false => format!("{fewest} to {most} CPUs"),
    }
}

/// Formats a duration: hours and minutes, minutes and seconds, or a smaller unit.
fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 59.5 => short(seconds),
        ..6000 => format!("{}m{:02}", whole / 60, whole % 60),
        _ => format!("{}h{:02}", whole / 3600, whole / 60 % 60),
    }
}

/// Formats seconds without a unit, with the significant decimals.
fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0".into(),
        ..0.9995 => format!("{seconds:.3}"),
        ..9.95 => format!("{seconds:.2}"),
        ..99.5 => format!("{seconds:.1}"),
        _ => format!("{seconds:.0}"),
    }
}

fn short(seconds: f64) -> String {
    let (value, unit) = match seconds {
        ..1e-6 => (seconds * 1e9, "ns"),
        ..1e-3 => (seconds * 1e6, "us"),
        ..1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    match value {
        ..10.0 => format!("{value:.2} {unit}"),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_fits() {
        let times = [0.0, 4.2e-9, 0.25, 12.34, 59.7, 3495.7, 250_000.0].map(duration);
        assert_eq!(
            times,
            [
                "0.00 ns", "4.20 ns", "250.0 ms", "12.3 s", "1m00", "58m16", "69h26"
            ]
        );
    }
}
