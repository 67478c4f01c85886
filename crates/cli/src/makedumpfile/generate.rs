//! `-g`: creates VMCOREINFO from VMLINUX, or the hypervisor's from XEN-SYMS.

use std::fs;
use std::path::Path;

use anyhow::Context;
use bigiron_kernel::linked_vmcoreinfo;
use bigiron_kernel::vmlinux::Vmlinux;
use bigiron_kernel::xen;

use super::job::Linked;
use super::settings::Settings;

/// Writes the file.
pub fn run(settings: &Settings, linked: &Linked, vmcoreinfo: &Path) -> anyhow::Result<()> {
    let text = match linked {
        Linked::Vmlinux(path) => {
            // As in makedumpfile, the page size is this machine's.
            let page_size = rustix::param::page_size() as u64;
            linked_vmcoreinfo::generate(&Vmlinux::open(path)?, page_size)?
        }
        Linked::XenSyms(path) => xen::linked_vmcoreinfo(&Vmlinux::open(path)?)?,
    };
    let name = vmcoreinfo.display();
    fs::write(vmcoreinfo, text)
        .with_context(|| format!("Can't open the vmcoreinfo file({name})"))?;
    settings
        .messages
        .common(&format!("\nThe vmcoreinfo is saved to {name}.\n"));
    Ok(())
}
