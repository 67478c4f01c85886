//! `bigiron mem`: large memory with helper threads.

#[cfg(feature = "bench")]
pub mod bench;
mod create;
mod destroy;
mod display;
mod exec;
mod explain;
mod kill;
mod prewarm;
mod program;
mod run;

use std::process::ExitCode;

use bigiron_memory::Settings;

use crate::arguments::memory::{HelperArguments, MemoryCommand};

/// Runs a subcommand.
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
        MemoryCommand::Kill(arguments) => kill::run(arguments),
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
