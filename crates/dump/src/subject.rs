//! What a dump is made of: a source, and the kernel in it if one is found, or the Xen host.

use std::path::Path;

use bigiron_format::kdump::Utsname;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::rules::{Rules, resolve};
use bigiron_kernel::xen::{Given, Host, Owners};
use bigiron_kernel::{
    CacheStatistics, DumpLevel, Filter, IoMethod, Kernel, KernelError, MemorySource,
    PhysicalMemory, Source,
};

use crate::error::DumpError;

/// What a dump is made of: a source, and the kernel in it.
///
/// Dump levels 0 and 1 need no kernel, so a source with a damaged VMCOREINFO is dumped without
/// one.
pub struct Subject<'s>(Content<'s>);

enum Content<'s> {
    Kernel(Box<Kernel<'s>>),
    Host(Box<XenHost<'s>>),
    Pages(Box<Pages<'s>>),
}

/// A Xen host.
struct XenHost<'s> {
    source: &'s Source,
    host: Host<'s>,
    /// The kernel in dom0, or why it is not found; `None` if it was not looked for.
    dom0: Option<Result<Kernel<'s>, KernelError>>,
    /// The lines of VMCOREINFO of dom0's kernel, if a note has it.
    info: Vmcoreinfo,
    utsname: Utsname,
}

/// A source whose kernel is not found.
struct Pages<'s> {
    source: &'s Source,
    /// The lines of VMCOREINFO that are text.
    info: Vmcoreinfo,
    utsname: Utsname,
    /// The reason, and what is lost by it.
    warning: String,
}

impl<'s> From<Kernel<'s>> for Subject<'s> {
    fn from(kernel: Kernel<'s>) -> Self {
        Self(Content::Kernel(Box::new(kernel)))
    }
}

impl<'s> Subject<'s> {
    /// Combines `source` with the kernel in it, which was found or not, for a dump at `level`.
    ///
    /// # Errors
    ///
    /// The kernel was not found, and `level` needs struct pages; or the reason is not one of the
    /// dump but of what the user gave.
    pub fn new(
        source: &'s Source,
        found: Result<Kernel<'s>, KernelError>,
        level: DumpLevel,
    ) -> Result<Self, DumpError> {
        let cause = match found {
            Ok(kernel) => return Ok(kernel.into()),
            Err(KernelError::SeveralKernels { .. }) => return Self::whole_host(source, level),
            Err(cause) if !cause.leaves_pages_readable() => return Err(cause.into()),
            Err(cause) => cause,
        };
        let place = place(source.memory());
        if level.needs_struct_pages() {
            return Err(DumpError::NoKernel {
                level: level.number(),
                place,
                cause: Box::new(cause),
            });
        }
        let info = noted_lines(source.memory());
        Ok(Self(Content::Pages(Box::new(Pages {
            source,
            utsname: utsname(source.memory(), &info),
            info,
            warning: warning(source.path(), &place, &cause),
        }))))
    }

    /// Combines `source` with the Xen host in it, and with the kernel in dom0, if it was looked
    /// for: dump levels from 2 on exclude pages of dom0 by it.
    pub fn of_host(
        source: &'s Source,
        host: Host<'s>,
        dom0: Option<Result<Kernel<'s>, KernelError>>,
    ) -> Self {
        let info = noted_lines(source.memory());
        Self(Content::Host(Box::new(XenHost {
            source,
            host,
            dom0,
            utsname: utsname(source.memory(), &info),
            info,
        })))
    }

    /// Combines `source` with the Xen host in it, as far as its notes lead to it.
    fn whole_host(source: &'s Source, level: DumpLevel) -> Result<Self, DumpError> {
        let cache_pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
        let memory = source.memory();
        match Host::find(memory, Given::default(), IoMethod::Auto, cache_pages) {
            Ok(Some(host)) => Ok(Self::of_host(source, host, None)),
            Ok(None) => Self::new(source, Err(KernelError::NoVmcoreinfo), level),
            Err(cause) => Self::new(source, Err(cause), level),
        }
    }

    /// The Xen host, if it is one.
    pub fn host(&self) -> Option<&Host<'s>> {
        match &self.0 {
            Content::Host(found) => Some(&found.host),
            Content::Kernel(_) | Content::Pages(_) => None,
        }
    }

    /// The kernel in dom0 of a Xen host, if it is found.
    pub fn dom0(&self) -> Option<&Kernel<'s>> {
        match &self.0 {
            Content::Host(found) => found.dom0.as_ref()?.as_ref().ok(),
            Content::Kernel(_) | Content::Pages(_) => None,
        }
    }

    /// Why the kernel in dom0 of a Xen host is not found.
    pub(crate) fn why_no_dom0(&self) -> Option<&KernelError> {
        match &self.0 {
            Content::Host(found) => found.dom0.as_ref()?.as_ref().err(),
            Content::Kernel(_) | Content::Pages(_) => None,
        }
    }

    /// Name and version of what runs on the machine, as far as known.
    pub fn system(&self) -> String {
        match self.host() {
            Some(host) => format!("Xen {}", host.version()),
            None => format!("Linux {}", self.utsname().release()),
        }
    }

    /// The kernel, if it is found.
    pub fn kernel(&self) -> Option<&Kernel<'s>> {
        match &self.0 {
            Content::Kernel(kernel) => Some(kernel),
            Content::Host(_) | Content::Pages(_) => None,
        }
    }

    /// Finds the pages of `rules` in the kernel, and lets dumps keep, drop and blank them. Returns
    /// false if there is no kernel to find them in.
    pub fn set_rules(&mut self, rules: &Rules) -> bool {
        let Content::Kernel(kernel) = &mut self.0 else {
            return false;
        };
        let found = resolve(rules, kernel);
        kernel.set_rules(found);
        true
    }

    /// The memory source, with erased data blanked.
    pub fn source(&self) -> &dyn MemorySource {
        match &self.0 {
            Content::Kernel(kernel) => kernel.source(),
            Content::Host(found) => found.source.memory(),
            Content::Pages(pages) => pages.source.memory(),
        }
    }

    /// The reason why some memory is missing from the source; `None` if it is complete.
    pub fn damage(&self) -> Option<&str> {
        match &self.0 {
            Content::Kernel(kernel) => kernel.damage(),
            Content::Host(found) => found.source.damage(),
            Content::Pages(pages) => pages.source.damage(),
        }
    }

    /// Why the kernel is not found, and what the dump loses by it; `None` if it is found.
    pub fn warning(&self) -> Option<&str> {
        match &self.0 {
            Content::Kernel(_) | Content::Host(_) => None,
            Content::Pages(pages) => Some(&pages.warning),
        }
    }

    /// The system names, as far as known.
    pub fn utsname(&self) -> &Utsname {
        match &self.0 {
            Content::Kernel(kernel) => kernel.utsname(),
            Content::Host(found) => &found.utsname,
            Content::Pages(pages) => &pages.utsname,
        }
    }

    /// VMCOREINFO; without a kernel, those of its lines that are text.
    pub(crate) fn info(&self) -> &Vmcoreinfo {
        match &self.0 {
            Content::Kernel(kernel) => kernel.info(),
            Content::Host(found) => &found.info,
            Content::Pages(pages) => &pages.info,
        }
    }

    /// The text of VMCOREINFO for the notes of the dump: without a kernel, that of the source as
    /// it is; `None` if it has none.
    pub(crate) fn vmcoreinfo_text(&self) -> Option<&[u8]> {
        match &self.0 {
            Content::Kernel(kernel) => Some(kernel.info().text().as_bytes()),
            Content::Host(found) => Some(found.source.memory().vmcoreinfo_note()?.text),
            Content::Pages(pages) => Some(pages.source.memory().vmcoreinfo_note()?.text),
        }
    }

    /// Creates the filter for `level`, which needs a kernel if it needs struct pages. `owners`
    /// matters for a Xen host only.
    pub(crate) fn filter(
        &self,
        level: DumpLevel,
        owners: Owners,
    ) -> Result<Filter<'_, 's>, KernelError> {
        match &self.0 {
            Content::Host(found) => {
                let dom0 = self.dom0();
                // The kernel's classes are only asked for where dom0's memory is dumped.
                if let Some(error) = self.why_no_dom0().filter(|_| owners.dom0)
                    && level.excludes_kernel_classes()
                {
                    return Err(KernelError::NoDom0 {
                        cause: error.to_string(),
                    });
                }
                Filter::of_host(found.source.memory(), &found.host, dom0, owners, level)
            }
            Content::Kernel(kernel) => Filter::new(kernel, level),
            Content::Pages(_) if level.needs_struct_pages() => Err(KernelError::NoVmcoreinfo),
            Content::Pages(pages) => Ok(Filter::all_pages(pages.source.memory())),
        }
    }

    /// Statistics of the page cache for kernel memory.
    pub(crate) fn cache_statistics(&self) -> CacheStatistics {
        match &self.0 {
            Content::Kernel(kernel) => kernel.memory().statistics(),
            Content::Host(found) => found.host.memory().statistics(),
            Content::Pages(_) => CacheStatistics::default(),
        }
    }
}

/// Returns the lines of VMCOREINFO in a note that are text.
fn noted_lines(source: &dyn MemorySource) -> Vmcoreinfo {
    let note = source.vmcoreinfo_note();
    note.map_or_else(Vmcoreinfo::default, |note| {
        Vmcoreinfo::sound_lines(note.text)
    })
}

/// Says where the notes have VMCOREINFO, or why they do not have it.
fn place(source: &dyn MemorySource) -> String {
    match (source.vmcoreinfo_note(), source.notes().damage()) {
        (Some(note), _) => format!(" (VMCOREINFO is at offset {:#x})", note.offset),
        (None, Some(damage)) => format!(" ({damage})"),
        (None, None) => String::new(),
    }
}

fn warning(path: &Path, place: &str, cause: &KernelError) -> String {
    let path = path.display().to_string();
    let cause = cause.to_string();
    let name = match cause.contains(&path) {
        true => String::new(),
        false => format!("{path}: "),
    };
    format!(
        "{name}{cause}{place}; the dump is made without VMCOREINFO: it has all pages, but memory \
         that the kernel marked as broken is not recognised, and readers of the dump need \
         VMCOREINFO from elsewhere"
    )
}

fn utsname(source: &dyn MemorySource, info: &Vmcoreinfo) -> Utsname {
    source.utsname().cloned().unwrap_or_else(|| {
        let mut names = Utsname::default();
        names.names[0] = "Linux".into();
        names.names[2] = info.release().unwrap_or_default().into();
        names.names[4] = source.machine().into();
        names
    })
}
