//! Opens dom0's memory as a source.

use std::path::Path;
use std::sync::Arc;

use bigiron_format::PhysAddr;

use super::domain_frames::DomainFrames;
use super::domain_source::DomainSource;
use super::host::{Given, Host};
use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::source::{IoMethod, Source};
use crate::symbols::kallsyms;

/// Opens dom0's memory in the dump of a Xen host. `given` is what the user says about the
/// hypervisor.
///
/// # Errors
/// `host` is not of a Xen host, or the hypervisor or dom0's table of frames is not found in it.
pub fn open_dom0(
    host: &Arc<Source>,
    given: Given,
    io: IoMethod,
    cache_pages: usize,
) -> Result<Source, KernelError> {
    let found = Host::find(host.memory(), given, io, cache_pages)?.ok_or(KernelError::NoXenHost)?;
    let frames = DomainFrames::of_dom0(&found)?;
    let mut domain = DomainSource::new(Arc::clone(host), frames, notes(&found)?);
    if let Some(variable) = start_info(&domain, host.path(), io, cache_pages) {
        domain.hide(variable);
    }
    Ok(Source::inside(host, Box::new(domain)))
}

/// Returns a note with the registers of each virtual CPU of dom0, in the order of their numbers. One
/// without registers has zeros, so that readers count right, unless none follows.
fn notes(host: &Host) -> Result<Vec<u8>, KernelError> {
    let vcpus = host.vcpus(0)?;
    let count = vcpus.iter().rposition(|vcpu| vcpu.registers.is_some());
    let saved = vcpus.iter().take(count.map_or(0, |last| last + 1));
    let notes = saved.map(|vcpu| vcpu.registers.unwrap_or_default().note());
    Ok(notes.collect::<Vec<_>>().concat())
}

/// Returns where dom0's kernel has the pointer xen_start_info, if its symbols are in its memory.
/// By it, crash takes page tables for those of a Xen domain, whose frames it cannot translate.
fn start_info(
    domain: &DomainSource,
    path: &Path,
    io: IoMethod,
    cache_pages: usize,
) -> Option<PhysAddr> {
    let kernel = Kernel::find_in(domain, path, None, io, cache_pages).ok()?;
    let symbols = kallsyms::read(&kernel).ok()??;
    let address = symbols.find("xen_start_info")?.address;
    let leaf = kernel.translate(address).ok()??;
    leaf.physical.0.is_multiple_of(8).then_some(leaf.physical)
}
