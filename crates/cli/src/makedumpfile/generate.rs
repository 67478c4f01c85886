//! `-g`: creates VMCOREINFO from VMLINUX.

use std::fs;
use std::path::Path;

use anyhow::Context;
use bigiron_kernel::linked_vmcoreinfo;
use bigiron_kernel::vmlinux::Vmlinux;

use super::settings::Settings;

/// Writes the file.
pub fn run(settings: &Settings, vmlinux: &Path, vmcoreinfo: &Path) -> anyhow::Result<()> {
    // As in makedumpfile, the page size is this machine's.
    let page_size = rustix::param::page_size() as u64;
    let text = linked_vmcoreinfo::generate(&Vmlinux::open(vmlinux)?, page_size)?;
    let name = vmcoreinfo.display();
    fs::write(vmcoreinfo, text)
        .with_context(|| format!("Can't open the vmcoreinfo file({name})"))?;
    settings
        .messages
        .common(&format!("\nThe vmcoreinfo is saved to {name}.\n"));
    Ok(())
}
