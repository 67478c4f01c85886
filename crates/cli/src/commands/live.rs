//! `bigiron live`: a dump of the running kernel.

use std::path::PathBuf;

use anyhow::Context;
use bigiron_kernel::RUNNING_KERNEL;

use super::dump;
use crate::arguments::LiveArguments;

/// Dumps the running kernel and prints the summary.
pub fn run(arguments: &LiveArguments) -> anyhow::Result<()> {
    check_is_shown()?;
    let source = [PathBuf::from(RUNNING_KERNEL)];
    dump::make(&source, arguments.outputs(), &arguments.how, None)
}

/// Returns an error that names the requirements if /proc/kcore cannot be opened.
pub fn check_is_shown() -> anyhow::Result<()> {
    std::fs::File::open(RUNNING_KERNEL).with_context(|| {
        format!(
            "{RUNNING_KERNEL}: cannot read the running kernel's memory; this requires root, a kernel \
             with CONFIG_PROC_KCORE, and no confidentiality lockdown \
             (/sys/kernel/security/lockdown)"
        )
    })?;
    Ok(())
}
