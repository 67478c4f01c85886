//! `bigiron cpu list`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bigiron_cpu::CpuList;
use bigiron_cpu::hotplug::{Cpus, OfflineEffects};
use clap::Args;
use serde::Serialize;

use super::hotplug::RootArguments;
use crate::tell::print;

/// `bigiron cpu list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Root of the kernel's files.
    #[command(flatten)]
    root: RootArguments,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    cpus: Cpus,
    rows: Vec<Row>,
    /// Side effects of taking every possible CPU offline.
    effects: OfflineEffects,
}

/// CPUs of a socket in a memory node.
#[derive(Default, Serialize)]
struct Row {
    /// `None` for offline CPUs, whose socket the kernel does not report.
    socket: Option<i32>,
    node: Option<u32>,
    cores: usize,
    threads: usize,
    online: CpuList,
    offline: CpuList,
}

/// Prints the CPUs.
pub fn run(arguments: &ListArguments) -> anyhow::Result<()> {
    let root = arguments.root.sys_root();
    let cpus = Cpus::read(&root)?;
    let going = cpus.online.without(&cpus.fixed);
    let answer = Answer {
        rows: rows(&cpus),
        effects: OfflineEffects::of(&root, &cpus, &going),
        cpus,
    };
    match arguments.json {
        true => print(&(serde_json::to_string(&answer)? + "\n")),
        false => print(&text(&answer)),
    }
}

fn rows(cpus: &Cpus) -> Vec<Row> {
    let mut rows: BTreeMap<_, (Row, Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for (cpu, position) in &cpus.positions {
        let entry = rows.entry((position.socket, position.node)).or_default();
        let (row, online, offline) = entry;
        (row.socket, row.node) = (position.socket, position.node);
        if cpus.online.contains(*cpu) {
            row.cores += usize::from(position.siblings.iter().next() == Some(*cpu));
            row.threads = row.threads.max(position.siblings.len());
            online.push(*cpu);
        } else {
            offline.push(*cpu);
        }
    }
    let rows = rows.into_values().map(|(row, online, offline)| Row {
        online: online.into_iter().collect(),
        offline: offline.into_iter().collect(),
        ..row
    });
    rows.collect()
}

fn text(answer: &Answer) -> String {
    let cpus = &answer.cpus;
    let count = |list: &CpuList| match list.is_empty() {
        true => "none".to_owned(),
        false => format!("{} ({})", list.len(), list),
    };
    let mut out = String::new();
    for (name, list) in [
        ("present", &cpus.present),
        ("online", &cpus.online),
        ("offline", &cpus.offline),
        ("always on", &cpus.fixed),
        ("isolated", &cpus.isolated),
        ("nohz_full", &cpus.nohz_full),
    ] {
        let _ = writeln!(out, "{name:<10} {}", count(list));
    }
    let control = match &cpus.smt.control {
        Some(word) => format!("smt/control is {word}"),
        None => "no smt/control".into(),
    };
    let threads = cpus.smt.threads;
    let _ = writeln!(out, "{:<10} {threads} per core; {control}", "threads");
    let _ = writeln!(
        out,
        "\n{:>6} {:>5} {:>6} {:>8}  {:<20} offline",
        "socket", "node", "cores", "threads", "online"
    );
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let list = |list: &CpuList| match list.is_empty() {
        true => "-".to_owned(),
        false => list.to_string(),
    };
    for row in &answer.rows {
        let _ = writeln!(
            out,
            "{:>6} {:>5} {:>6} {:>8}  {:<20} {}",
            or_dash(row.socket.map(|socket| socket.to_string())),
            or_dash(row.node.map(|node| node.to_string())),
            row.cores,
            row.threads,
            list(&row.online),
            list(&row.offline)
        );
    }
    let effects = answer.effects.to_string();
    if !effects.is_empty() {
        let _ = writeln!(
            out,
            "\nSide effects of taking every possible CPU offline:\n{}",
            effects.trim_end()
        );
    }
    out
}
