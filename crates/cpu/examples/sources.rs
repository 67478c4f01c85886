//! How long each place takes that tells the scheduler domains of the running kernel, and what marks their CPUs
//! have. A line for each: `bpf.load`, `bpf`, `bpf.mark`, `debugfs`, `schedstat`, with microseconds (the median of all
//! domains read 11 times; of loading and of one mark as well), and `mark CPU MARK`. With the argument `marks` only
//! those. vmtest/cpus runs it in guests.

use std::time::Instant;

use bigiron_cpu::System;
use bigiron_cpu::source::{Bpf, Debugfs, DomainSource, Schedstat, SourceError};

const TIMES: usize = 11;

/// Prints the median of some runs, or why there is none.
fn time<T>(name: &str, what: impl Fn() -> Result<T, SourceError>) {
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        if let Err(error) = what() {
            println!("{name} failed: {error}");
            return;
        }
        took.push(start.elapsed());
    }
    took.sort();
    if let Some(median) = took.get(TIMES / 2) {
        println!("{name} {}", median.as_micros());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bpf = Bpf::load()?;
    if std::env::args().nth(1).as_deref() != Some("marks") {
        time("bpf.load", || Ok(Bpf::load()?));
        time("bpf", || bpf.read());
        time("bpf.mark", || Ok(bpf.mark(0)?));
        let debugfs = Debugfs::running();
        time("debugfs", || debugfs.read());
        let schedstat = Schedstat::running();
        time("schedstat", || schedstat.read());
    }
    for cpu in System::running().possible()?.iter() {
        println!("mark {cpu} {:?}", bpf.mark(cpu)?);
    }
    Ok(())
}
