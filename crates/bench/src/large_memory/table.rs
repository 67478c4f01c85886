//! The results as text.

use std::fmt::Write as _;

use super::model::{Case, HELPERS, Model};
use super::rows::{Kind, Target};
use super::small::threshold;
use super::{Measured, Results};

/// Maximum time of small requests relative to the plain call.
const SMALL: f64 = 1.02;

/// Formats all tables.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", results.facts.line());
    let _ = writeln!(
        out,
        "{} MiB, {} rounds by turns; medians in ms per GB (GiB); ±: half the spread of the middle \
         half of all rounds.\nbefore: the plain calls, one thread; after: by helpers. All pages were \
         seen in place and locked, and gone at the end.",
        results.size >> 20,
        results.rows.first().map_or(0, |row| row.ours.rounds.len())
    );
    let titles = [
        (Kind::Ism, "ISM: create + lock (SHM_LOCK) + destroy"),
        (Kind::Dism, "DISM: create + lock (mlock) + destroy"),
        (Kind::Other, "Other memory: create + destroy"),
    ];
    for (kind, title) in titles {
        let of_kind = || results.rows.iter().filter(|row| row.row.kind == kind);
        let _ = writeln!(out, "\n{title}\n{:52}{HEAD}", "");
        of_kind().for_each(|row| totals(&mut out, row));
    }
    let _ = writeln!(
        out,
        "\nCreate and destroy apart\n{:52}{:>24}   {:>24}\n{:52}{HEAD_APART}   {HEAD_APART}",
        "", "create + lock", "destroy", ""
    );
    results.rows.iter().for_each(|row| apart(&mut out, row));
    reaper(&mut out, results);
    small(&mut out, results);
    peers(&mut out, results);
    if let Some(costs) = &results.model {
        model(&mut out, costs, results);
    }
    for skipped in &results.skipped {
        let _ = write!(out, "\nnot measured: {skipped}");
    }
    out.trim_end().to_owned()
}

const HEAD: &str = "   before          after       speedup  target";
const HEAD_APART: &str = "  before   after speedup";

fn totals(out: &mut String, row: &Measured) {
    let (before, after) = (row.plain.total(), row.ours.total());
    let percent = |spread: f64| format!("±{:.0}%", spread * 50.0);
    let times = before / after.max(1e-9);
    let _ = writeln!(
        out,
        "{:52}{before:>9.1} {:>5} {after:>9.1} {:>5} {times:>6.1}X  {}",
        name(row),
        percent(row.plain.spread),
        percent(row.ours.spread),
        row.row.target.total.map_or(String::new(), |wanted| met(
            times >= wanted,
            &format!("{wanted}X")
        )),
    );
}

/// Returns the row's name, and the percentage of huge pages if it is too low.
fn name(row: &Measured) -> String {
    let indent = match row.row.kind {
        Kind::Ism => "ISM   ",
        Kind::Dism => "DISM  ",
        Kind::Other => "other ",
    };
    let huge = row.ours.middle.huge;
    let few = row.row.after.wants_huge() && huge < 0.99;
    let few = if few {
        format!(" ({:.0}% huge)", huge * 100.0)
    } else {
        String::new()
    };
    format!("{indent}{}{few}", row.row.what)
}

fn apart(out: &mut String, row: &Measured) {
    let (plain, ours) = (&row.plain.middle, &row.ours.middle);
    let Target { destroy, .. } = row.row.target;
    let times = plain.destroy / ours.destroy.max(1e-9);
    let line = format!(
        "{:52}{:>8.1} {:>7.1} {:>6.1}X   {:>8.1} {:>7.1} {times:>6.1}X  {}",
        name(row),
        plain.create,
        ours.create,
        plain.create / ours.create.max(1e-9),
        plain.destroy,
        ours.destroy,
        destroy.map_or(String::new(), |wanted| met(
            times >= wanted,
            &format!("{wanted}X")
        )),
    );
    let _ = writeln!(out, "{}", line.trim_end());
}

fn met(is_met: bool, wanted: &str) -> String {
    let word = if is_met { "met" } else { "NOT MET" };
    format!("{wanted} {word}")
}

fn reaper(out: &mut String, results: &Results) {
    let reaped: Vec<_> = results
        .rows
        .iter()
        .filter_map(|row| Some((row, row.ours.middle.complete?)))
        .collect();
    if reaped.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nThe reaper: what the caller waits, and when all is free (*: with the start of the reaper)\n{:52}{:>10} {:>12} {:>10} {:>12}",
        "", "unmapping*", "then dropped", "both", "all is free"
    );
    for (row, complete) in reaped {
        let ours = &row.ours.middle;
        let dropped = ours.destroy - ours.unmap;
        let wanted = row.row.target.wait;
        let _ = writeln!(
            out,
            "{:52}{:>10.2} {dropped:>12.2} {:>10.2} {complete:>12.2}  {}",
            name(row),
            ours.unmap,
            ours.destroy,
            wanted.map_or(String::new(), |wanted| met(
                dropped < wanted,
                &format!("dropped below {wanted} ms")
            )),
        );
    }
}

fn small(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "\nSmall requests, microseconds\n{:>10} {:>10} {:>10} {:>8}",
        "KiB", "plain", "ours", "ratio"
    );
    for pair in &results.small {
        let _ = writeln!(
            out,
            "{:>10} {:>10.1} {:>10.1} {:>8.3}  {}",
            pair.size >> 10,
            pair.plain,
            pair.ours,
            pair.ratio,
            met(pair.ratio <= SMALL, "at most 1.02")
        );
    }
    if results.by_helpers.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nOne helper and all of them, microseconds\n{:>10} {:>10} {:>10} {:>8}",
        "KiB", "one", "all", "ratio"
    );
    for pair in &results.by_helpers {
        let _ = writeln!(
            out,
            "{:>10} {:>10.1} {:>10.1} {:>8.3}",
            pair.size >> 10,
            pair.plain,
            pair.ours,
            pair.ratio
        );
    }
    let _ = match threshold(&results.by_helpers) {
        Some(size) => writeln!(out, "helpers are faster from {} KiB on", size >> 10),
        None => writeln!(out, "helpers are not faster at any of these sizes"),
    };
}

fn peers(out: &mut String, results: &Results) {
    if results.peers.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nOther programs, ms per GB\n{:58}{:>8} {:>8} {:>8}",
        "", "create", "destroy", "both"
    );
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    for peer in &results.peers {
        let _ = writeln!(
            out,
            "{:58}{:>8} {:>8} {:>8.1}",
            peer.what,
            number(peer.create),
            number(peer.destroy),
            peer.total
        );
    }
}

fn model(out: &mut String, model: &Model, results: &Results) {
    let plain = results.rows.first().map_or(0.0, |row| row.plain.total());
    let _ = writeln!(
        out,
        "\nMODEL, not measured: ISM by more helpers, ms per GB, and how many times faster than the {plain:.0} ms \
         of the plain calls.\nCosts are this machine's. At worst what two helpers lose is serial, and memory \
         feeds {:.2} helpers\nthat zero pages; at best neither gets worse with more.\n{:33}{}",
        model.bus,
        "helpers",
        HELPERS.map(|helpers| format!("{helpers:>15}")).concat()
    );
    let mut line = |name: &str, time: &dyn Fn(usize) -> f64| {
        let cells = HELPERS.map(|helpers| {
            let time = time(helpers);
            format!("{time:>8.1} {:>5.1}X", plain / time.max(1e-9))
        });
        let _ = writeln!(out, "{name:33}{}", cells.concat());
    };
    for (name, case) in [("at worst", Case::Worst), ("at best", Case::Best)] {
        line(&format!("4 KiB, {name}"), &|helpers| {
            model.small(case, helpers, 1)
        });
        line(&format!("4 KiB, 16 segments, {name}"), &|helpers| {
            model.small(case, helpers, 16)
        });
        line(&format!("2 MiB, {name}"), &|helpers| {
            model.huge(case, helpers)
        });
    }
    for check in &results.checks {
        let _ = writeln!(
            out,
            "held against {}, 2 helpers: predicted {:.1}, measured {:.1}, {:+.0}%",
            check.what,
            check.predicted,
            check.measured,
            (check.predicted / check.measured.max(1e-9) - 1.0) * 100.0
        );
    }
}
