//! `bigiron setup`: prepares a machine for crash dumps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};

use crate::errors::FAILED;
use crate::plan::{Root, expected_bytes};
use crate::ram_dump::check::check;
use crate::ram_dump::{DEVICE, KeptRange, MemoryMap, automatic_size, choose, files};
use crate::tell::{print, tell};
use crate::{signals, size};

/// `bigiron setup`.
#[derive(Debug, Args)]
pub struct SetupArguments {
    /// What is prepared.
    #[command(subcommand)]
    pub what: What,
}

/// What is prepared.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Keep memory in which a dump survives a reboot by kexec
    RamDump(RamDumpArguments),
}

/// `bigiron setup ram-dump`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct RamDumpArguments {
    /// Memory to keep, such as 4G: a multiple of 2M; auto is one and a half times the vmdump that is
    /// expected at level 31, at least 1/128 of the machine's memory and 256M
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_size)]
    pub size: RamDumpSize,
    /// Write the boot loader's and the kit's configuration
    #[arg(long, conflicts_with_all = ["remove", "check"])]
    pub write: bool,
    /// Remove what --write wrote
    #[arg(long, conflicts_with = "check")]
    pub remove: bool,
    /// After the reboot: check that the memory is a dump device that nothing else uses
    #[arg(long)]
    pub check: bool,
    /// Directory that has etc, proc, sys and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    pub root: PathBuf,
}

/// The amount of memory to keep.
#[derive(Clone, Copy, Debug)]
pub enum RamDumpSize {
    /// By the expected dump and the machine's memory.
    Automatic,
    /// This many bytes.
    Bytes(u64),
}

const HELP: &str = "\
Without --write, --remove and --check, prints the word for the kernel's command line and changes \
nothing. Exit status: 0 success, and with --check all conditions hold; 1 otherwise; 2 invalid command \
line.

Examples:
  bigiron setup ram-dump --write && update-grub && reboot
  bigiron setup ram-dump --check
  bigiron setup ram-dump --remove && update-grub";

/// Prints a line.
fn say(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}

fn parse_size(text: &str) -> Result<RamDumpSize, String> {
    match text {
        "auto" => Ok(RamDumpSize::Automatic),
        size => size::parse(size).map(RamDumpSize::Bytes),
    }
}

/// Runs the command.
pub fn run(arguments: &SetupArguments) -> anyhow::Result<ExitCode> {
    let What::RamDump(arguments) = &arguments.what;
    let root = &arguments.root;
    if arguments.check {
        return report_check(root);
    }
    if arguments.remove {
        let removed = files::remove(root)?;
        for path in &removed {
            say(&format!("removed {}", path.display()))?;
        }
        match removed.is_empty() {
            true => say("nothing to remove")?,
            false => say("the memory is free after update-grub and a reboot")?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let written = files::read(root)?;
    let range = find_range(root, arguments.size, written)?;
    say(&format!(
        "{} at {:#x}: {range}",
        size::format(range.size),
        range.start
    ))?;
    say(
        "The word belongs on the command lines of the production kernel and of the capture kernel.",
    )?;
    if let Some(warning) = files::capture_warning(root, range)? {
        tell!("bigiron: warning: {warning}");
    }
    if arguments.write {
        for path in files::write(root, range)? {
            say(&format!("wrote {}", path.display()))?;
        }
        say(
            "Next: update-grub, rebuild the initrd of the capture kernel, reboot, bigiron setup ram-dump --check",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the range that was written before if it has the requested size, or a new one.
fn find_range(
    root: &Path,
    size: RamDumpSize,
    written: Option<KeptRange>,
) -> anyhow::Result<KeptRange> {
    let is_same = |range: &KeptRange| match size {
        RamDumpSize::Automatic => true,
        RamDumpSize::Bytes(bytes) => bytes == range.size,
    };
    if let Some(range) = written.filter(is_same) {
        return Ok(range);
    }
    let path = root.join("proc/iomem");
    let text = fs::read_to_string(&path);
    let map =
        MemoryMap::parse(&text.with_context(|| format!("{}: cannot read it", path.display()))?)?;
    ensure!(
        written.is_some() || !root.join("sys/block").join(DEVICE).exists(),
        "/dev/{DEVICE} is there already: use it as DEVICE in /etc/default/bigiron if it is free"
    );
    let bytes = match size {
        RamDumpSize::Automatic => automatic_size(map.ram(), expected_dump(root)?),
        RamDumpSize::Bytes(bytes) => bytes,
    };
    choose(&map, bytes)
}

/// Returns the bytes that a dump is expected to have, and prints them; warns if they are not known.
fn expected_dump(root: &Path) -> anyhow::Result<Option<u64>> {
    match expected_bytes(&Root::new(root)) {
        Ok(bytes) => {
            let expected = size::format(bytes);
            say(&format!(
                "a dump at level 31 is expected to have {expected}"
            ))?;
            Ok(Some(bytes))
        }
        Err(error) => {
            ensure!(!signals::received(), "interrupted");
            tell!(
                "bigiron: warning: the size of a dump is not known, and --size auto is that of the \
                 machine: {error:#}"
            );
            Ok(None)
        }
    }
}

fn report_check(root: &Path) -> anyhow::Result<ExitCode> {
    let range = files::read(root)?;
    let range = range.context("nothing is set up: bigiron setup ram-dump --write does it")?;
    let conditions = check(root, range);
    let mut code = ExitCode::SUCCESS;
    for condition in &conditions {
        match &condition.failure {
            None => say(&format!("ok    {}", condition.text))?,
            Some(failure) => {
                say(&format!("FAIL  {}: {failure}", condition.text))?;
                code = ExitCode::from(FAILED);
            }
        }
    }
    Ok(code)
}
