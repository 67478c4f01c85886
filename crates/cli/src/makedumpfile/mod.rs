//! The program as `makedumpfile`: its options, messages and exit codes, on the engine of
//! `bigiron dump`.
//!
//! | module | contents |
//! |---|---|
//! | `options`, `spec` | the table of all options, for parser, help and documentation |
//! | `getopt`, `sizes` | the command line and its numbers, parsed as in C |
//! | `settings`, `job` | the requested work, and valid combinations of options |
//! | `messages`, `progress`, `report`, `help` | output |
//! | `create`, `generate`, `levels`, `rearrange`, `reassemble`, `dmesg`, `mem_usage` | the work |
//! | `input`, `vtop`, `dump_file` | VMCORE, an address in VMCORE, DUMPFILE |

mod create;
mod dmesg;
mod dump_file;
mod failure;
#[cfg(feature = "dwarf")]
mod generate;
mod getopt;
mod help;
mod input;
mod job;
mod levels;
mod mem_usage;
mod messages;
mod options;
mod progress;
mod rearrange;
mod reassemble;
mod report;
mod settings;
mod sizes;
mod spec;
pub mod vtop;

use std::ffi::OsString;

use failure::{COMPLETED, FAILED};
use job::Job;
use settings::Settings;

/// Runs as makedumpfile with these arguments; returns the exit code.
pub fn run_as_alias(arguments: Vec<OsString>) -> u8 {
    let mut settings = Settings::new();
    let line = command_line(&arguments);
    if !settings.parse(arguments) {
        return end(&settings, FAILED);
    }
    let messages = settings.messages;
    if settings.help {
        messages.common(&help::usage());
        return COMPLETED;
    }
    if settings.version {
        messages.common(&help::version());
        return COMPLETED;
    }
    messages.debug(&format!("{}command line: {line}\n\n", help::version()));
    if !settings.judge_options() {
        return end(&settings, FAILED);
    }
    let Some(job) = Job::of(&settings) else {
        settings.invalid();
        return end(&settings, FAILED);
    };
    if settings.check_params {
        return COMPLETED;
    }
    let result = match &job {
        Job::Rearrange { dumpfile } => rearrange::run(&settings, dumpfile),
        Job::Reassemble { parts, dumpfile } => reassemble::run(&settings, parts, dumpfile),
        Job::Dmesg { vmcore, logfile } => dmesg::run(&settings, vmcore, logfile),
        Job::MemUsage { vmcore } => mem_usage::run(&settings, vmcore),
        #[cfg(feature = "dwarf")]
        Job::Generate { linked, vmcoreinfo } => generate::run(&settings, linked, vmcoreinfo),
        Job::Create { vmcore, target } => create::run(&settings, vmcore, target),
    };
    let code = match &result {
        Ok(()) => COMPLETED,
        Err(error) => {
            messages.error(&crate::errors::message(error));
            failure::exit_code(error)
        }
    };
    end(&settings, code)
}

/// Returns the dump levels, in the order in which they are tried, and the format of a dump that is
/// made with these options; `None` if they are wrong.
#[cfg(feature = "plan")]
pub fn levels_and_format(
    options: Vec<OsString>,
) -> Option<(Vec<bigiron_kernel::DumpLevel>, bigiron_dump::Format)> {
    let mut settings = Settings::new();
    // Wrong options are the caller's to tell, whatever --message-level says.
    settings.check_params = true;
    settings.messages.set_level(0);
    let is_valid = settings.parse(options) && settings.refused().is_none();
    is_valid.then(|| {
        let format = match settings.elf {
            true => bigiron_dump::Format::ELF,
            false => bigiron_dump::Format::kdump(settings.compression),
        };
        (settings.levels, format)
    })
}

/// Prints the final message.
fn end(settings: &Settings, code: u8) -> u8 {
    if settings.check_params {
        return code;
    }
    let last = match code {
        COMPLETED if settings.mem_usage => "\n",
        COMPLETED => "\nmakedumpfile Completed.\n",
        _ => "\nmakedumpfile Failed.\n",
    };
    settings.messages.common(last);
    code
}

fn command_line(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = words.collect();
    format!("makedumpfile {}", words.join(" "))
}
