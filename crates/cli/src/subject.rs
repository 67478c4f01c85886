//! What a dump is made of: the kernel in a source, or the Xen host.

use std::sync::Arc;

use bigiron_dump::{DumpError, DumpOptions, Subject};
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::xen::{Given, Host, Owners, open_dom0};
use bigiron_kernel::{Kernel, KernelError, Source};

/// What the user says about a source.
pub struct Knowledge {
    /// About the hypervisor.
    pub host: Given,
    /// VMCOREINFO of dom0's kernel.
    pub kernel: Option<Vmcoreinfo>,
    /// Number of source pages cached for address translation.
    pub cache_pages: usize,
}

/// The memory of dom0 in a source, found or not; `None` if the source is not of a Xen host.
pub type Dom0 = Option<Result<Source, KernelError>>;

/// Finds the memory of dom0, if `source` is of a Xen host and the dump excludes pages by dom0's
/// kernel.
pub fn dom0(source: &Arc<Source>, known: &Knowledge, options: &DumpOptions) -> Dom0 {
    let is_wanted = options.owners.dom0 && options.level.needs_struct_pages();
    if !is_wanted || !bigiron_kernel::xen::host::is_host(source.memory()) {
        return None;
    }
    let given = known.host.clone();
    Some(open_dom0(source, given, options.io, known.cache_pages))
}

/// Combines `source` with the Xen host in it and the kernel in `dom0`, else with the kernel in it,
/// which was found or not.
///
/// # Errors
/// `options` ask for something that needs the hypervisor or the kernel, which is not found.
pub fn find<'s>(
    source: &'s Source,
    dom0: &'s Dom0,
    found: Result<Kernel<'s>, KernelError>,
    known: Knowledge,
    options: &DumpOptions,
) -> Result<Subject<'s>, DumpError> {
    let host = Host::find(source.memory(), known.host, options.io, known.cache_pages);
    let all = options.owners == Owners::ALL;
    match host {
        Ok(Some(host)) => {
            let dom0 = dom0.as_ref().map(|dom0| match dom0 {
                Ok(dom0) => Kernel::find(dom0, known.kernel, options.io, known.cache_pages),
                Err(error) => Err(KernelError::XenHost {
                    reason: error.to_string(),
                }),
            });
            Ok(Subject::of_host(source, host, dom0))
        }
        Ok(None) if all => Subject::new(source, found, options.level),
        Ok(None) => Err(KernelError::NoXenHost.into()),
        // All pages can be dumped without knowing their owners.
        Err(cause) if all => Subject::new(source, Err(cause), options.level),
        Err(cause) => Err(cause.into()),
    }
}
