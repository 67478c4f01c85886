//! `--then-boot auto`: from the capture kernel straight into the production kernel, without the
//! firmware (docs/service-first.md).
//!
//! The production kernel's release, command line and memory map are those of the crashed kernel,
//! read from its memory. kexec_load(2) takes a memory map from its caller; kexec_file_load(2)
//! would pass on that of the capture kernel, which has only the memory of `crashkernel=`.

mod boot_cpu;
mod bzimage;
mod command_line;
mod crash_kinds;
mod crashed;
mod kexec;
mod layout;
mod parameters;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use bigiron_kernel::Kernel;
use clap::Args;

use boot_cpu::firmware_cpu_to_avoid;
use bzimage::BzImage;
use crash_kinds::CrashKinds;
use crashed::Crashed;
use kexec::start;
use layout::Layout;
use parameters::boot_parameters;

use crate::tell::tell;

/// Options of starting the production kernel.
#[derive(Clone, Debug, Args)]
pub struct BootArguments {
    /// After the dump, start the production kernel by kexec, without the firmware
    ///
    /// `auto` starts the kernel that crashed, with its command line. Where that is not safe or not
    /// possible, the program tells why and ends as without this option, so that its caller
    /// reboots.
    #[arg(long, value_name = "WHAT", value_parser = ["auto"])]
    pub then_boot: Option<String>,
    /// With --then-boot, the directory of vmlinuz-RELEASE and its initrd
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/boot",
        hide_short_help = true
    )]
    pub boot_directory: PathBuf,
    /// With --then-boot, a file of texts, one a line; after a crash whose last log lines have one
    /// of them, the machine reboots through the firmware
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub firmware_after: Option<PathBuf>,
    /// With --then-boot, a kernel that was started this way and crashes within so many minutes is
    /// started again through the firmware
    #[arg(
        long,
        value_name = "MINUTES",
        default_value = "10",
        hide_short_help = true
    )]
    pub firmware_within: u32,
}

impl BootArguments {
    /// Starts the production kernel if that is requested, and does not return then. Otherwise
    /// tells why it is not started.
    pub fn boot(&self, kernel: Option<&Kernel>) {
        if self.then_boot.is_none() {
            return;
        }
        if let Err(why) = self.try_boot(kernel) {
            tell!(
                "bigiron: warning: the production kernel is not started directly, so reboot: {why:#}"
            );
        }
    }

    fn try_boot(&self, kernel: Option<&Kernel>) -> anyhow::Result<()> {
        ensure!(
            cfg!(target_arch = "x86_64"),
            "--then-boot knows only x86-64"
        );
        let kernel = kernel.context("the crashed kernel was not found in the dump's source")?;
        let is_capture = Path::new("/proc/vmcore").exists();
        ensure!(
            is_capture,
            "this is no capture kernel: there is no /proc/vmcore"
        );
        let crashed = Crashed::read(kernel)?;
        let kinds = match &self.firmware_after {
            Some(path) => CrashKinds::read(path)?,
            None => CrashKinds::default(),
        };
        if let Some(line) = kinds.find(&crashed.last_lines) {
            bail!(
                "after such a crash devices may not work without a reset by the firmware: {line}"
            );
        }
        let own = fs::read_to_string("/proc/cmdline").context("/proc/cmdline: cannot read it")?;
        let within = u64::from(self.firmware_within) * 60;
        let mut line = command_line::next(&crashed.command_line, &own, crashed.uptime, within)?;
        if let Some(id) = firmware_cpu_to_avoid() {
            tell!(
                "bigiron: the crash was not on the firmware's CPU (APIC ID {id}), which only the firmware \
                 can start again: the production kernel does without it until the next reboot"
            );
            line = command_line::without_cpu(&line, id);
        }
        let (image, initrd) = find_files(&self.boot_directory, &crashed.release)?;
        let image = read(&image)?;
        let image = BzImage::parse(&image)?;
        let initrd = read(&initrd)?;
        let layout = Layout::choose(&image, initrd.len() as u64, &crashed.ram)?;
        image.check_command_line(&line)?;
        let parameters = boot_parameters(&image, &layout, &crashed.memory_map, &own_parameters());
        let segments = layout.segments(&image, &initrd, parameters, &line);
        tell!(
            "bigiron: starting Linux {} directly: {line}",
            crashed.release
        );
        start(layout.entry(), &segments)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{}: cannot read it", path.display()))
}

/// The boot parameters that this kernel was started with; empty if it does not show them.
fn own_parameters() -> Vec<u8> {
    fs::read("/sys/kernel/boot_params/data").unwrap_or_default()
}

/// Finds the kernel of this release and its initrd, by the names that distributions give them.
fn find_files(directory: &Path, release: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let is_name = !release.is_empty() && !release.contains('/');
    ensure!(is_name, "the dump has no release of the kernel");
    let find = |names: &[String]| {
        let mut paths = names.iter().map(|name| directory.join(name));
        let found = paths.find(|path| path.is_file());
        found.with_context(|| format!("{}: has no {}", directory.display(), names.join(" or ")))
    };
    let image = find(&[format!("vmlinuz-{release}")])?;
    let initrd = find(&[
        format!("initrd.img-{release}"),
        format!("initramfs-{release}.img"),
        format!("initrd-{release}"),
    ])?;
    Ok((image, initrd))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn kernel_and_initrd_are_found_by_their_release_in_each_distribution() {
        for initrd in ["initrd.img-6.1", "initramfs-6.1.img", "initrd-6.1"] {
            let boot = tempfile::tempdir().unwrap();
            fs::write(boot.path().join("vmlinuz-6.1"), "").unwrap();
            let missing = find_files(boot.path(), "6.1").unwrap_err().to_string();
            assert!(missing.contains("initramfs-6.1.img"), "{missing}");
            fs::write(boot.path().join(initrd), "").unwrap();
            let (image, found) = find_files(boot.path(), "6.1").unwrap();
            assert_eq!(image, boot.path().join("vmlinuz-6.1"));
            assert_eq!(found, boot.path().join(initrd));
            assert!(find_files(boot.path(), "6.2").is_err());
            assert!(find_files(boot.path(), "../6.1").is_err());
            assert!(find_files(boot.path(), "").is_err());
        }
    }
}
