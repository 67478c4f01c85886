//! What a dump is made of: the kernel in a source, or the Xen host.

use bigiron_dump::{DumpError, DumpOptions, Subject};
use bigiron_kernel::xen::{Given, Host, Owners};
use bigiron_kernel::{Kernel, KernelError, Source};

/// Combines `source` with the Xen host in it, else with the kernel in it, which was found or not.
/// `given` is what the user says about the hypervisor.
///
/// # Errors
/// `options` ask for something that needs the hypervisor or the kernel, which is not found.
pub fn find<'s>(
    source: &'s Source,
    found: Result<Kernel<'s>, KernelError>,
    given: Given,
    options: &DumpOptions,
    cache_pages: usize,
) -> Result<Subject<'s>, DumpError> {
    let host = Host::find(source.memory(), given, options.io, cache_pages);
    let all = options.owners == Owners::ALL;
    match host {
        Ok(Some(host)) => Ok(Subject::of_host(source, host)),
        Ok(None) if all => Subject::new(source, found, options.level),
        Ok(None) => Err(KernelError::NoXenHost.into()),
        // All pages can be dumped without knowing their owners.
        Err(cause) if all => Subject::new(source, Err(cause), options.level),
        Err(cause) => Err(cause.into()),
    }
}
