//! `bigiron mem`: large memory, by helpers.

#[cfg(feature = "bench")]
pub mod bench;
mod create;
mod destroy;
mod exec;
mod explain;
mod prewarm;
mod program;
mod run;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use bigiron_helpers::Stop;
use bigiron_memory::Settings;

use crate::arguments::memory::{HelperArguments, MemoryCommand};
use crate::progress::Line;
use crate::size;

/// Does what was asked for.
pub fn run(command: &MemoryCommand) -> anyhow::Result<ExitCode> {
    match command {
        #[cfg(feature = "bench")]
        MemoryCommand::Bench(arguments) => {
            bench::run(arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        MemoryCommand::Create(arguments) => create::run(arguments),
        MemoryCommand::Destroy(arguments) => destroy::run(arguments),
        MemoryCommand::Explain(arguments) => explain::run(arguments),
        MemoryCommand::Prewarm(arguments) => prewarm::run(arguments),
        MemoryCommand::Run(arguments) => Ok(run::run(arguments)),
    }
}

impl HelperArguments {
    fn settings(self) -> Settings {
        let usual = Settings::default();
        Settings {
            helpers: self.helpers.map_or(usual.helpers, usize::from),
            ..usual
        }
    }
}

/// Shows how far it is, and says to go on until a signal came.
fn watch(line: &mut Line, stop: &Stop, done: usize) -> ControlFlow<()> {
    line.show(done as u64);
    if stop.is_set() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Writes `1.20 s`, or milliseconds where there are less than a hundred.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.1 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// Writes `4.0 GiB in 1.20 s, 3.3 GiB a second`.
fn rate(bytes: u64, duration: Duration) -> String {
    let a_second = bytes as f64 / duration.as_secs_f64().max(1e-9);
    let (bytes, a_second) = (size::format(bytes), size::format(a_second as u64));
    format!("{bytes} in {}, {a_second} a second", time(duration))
}
