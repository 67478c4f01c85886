//! VMCORE and its kernel.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bigiron_dump::{DumpOptions, Subject};
use bigiron_format::PhysAddr;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
#[cfg(feature = "dwarf")]
use bigiron_kernel::vmlinux::Vmlinux;
#[cfg(feature = "dwarf")]
use bigiron_kernel::xen::linked_vmcoreinfo;
use bigiron_kernel::xen::{Given, Owners};
use bigiron_kernel::{IoMethod, Kernel, KernelError, PhysicalMemory, Source, named_note_warnings};

use super::failure::WrongRelease;
use super::settings::Settings;
use crate::subject::{Dom0, Knowledge};
use crate::{source, subject, vmlinux};

/// Opens the files of VMCORE, and warns about damage.
pub fn open(settings: &Settings, paths: &[PathBuf]) -> anyhow::Result<Source> {
    let opened = Source::open(paths)?;
    if let Some(damage) = opened.damage() {
        settings
            .messages
            .notice(&format!("{}: {damage}", opened.path().display()));
    }
    settings.messages.debug(&format!(
        "{}: {}, {} page frames\n",
        opened.path().display(),
        opened.kind(),
        opened.memory().end_frame().0
    ));
    Ok(opened)
}

/// Returns the I/O method for VMCORE.
pub fn io_method(settings: &Settings) -> IoMethod {
    if settings.non_mmap {
        IoMethod::Read
    } else {
        IoMethod::Auto
    }
}

/// Finds the kernel, with the VMCOREINFO that the options name.
pub fn kernel<'s>(settings: &Settings, opened: &'s Source) -> anyhow::Result<Kernel<'s>> {
    let given = settings.vmcoreinfo.as_deref();
    let given = given.map(source::read_vmcoreinfo).transpose()?;
    let find = |given| {
        let io = io_method(settings);
        Kernel::find(opened, given, io, PhysicalMemory::DEFAULT_CACHE_PAGES)
            .map_err(|error| source::name_error(error.into(), opened.path()))
    };
    let linked = given.as_ref().is_some_and(is_without_kaslr);
    let mut found = find(given);
    // VMCOREINFO made from VMLINUX has linked addresses. Only the one in VMCORE has the KASLR
    // offset.
    let own = opened.memory().vmcoreinfo_note();
    let own = own.and_then(|own| Vmcoreinfo::parse(own.text, own.offset).ok());
    let moved = own.is_some_and(|own| own.kernel_offset().is_some_and(|offset| offset != 0));
    if found.is_ok() && linked && moved {
        found = find(None);
    }
    for warning in named_note_warnings(opened, found.as_ref().ok()) {
        settings.messages.notice(&warning);
    }
    let kernel = found?;
    if let Some(path) = &settings.vmlinux {
        let is_kernel = vmlinux::is_of(path, kernel.info())
            .with_context(|| format!("Can't open the kernel file({})", path.display()))?;
        if !is_kernel {
            return Err(WrongRelease(vmlinux::mismatch(path, kernel.info())).into());
        }
    }
    show(settings, &kernel, opened.path());
    Ok(kernel)
}

/// Finds the memory of dom0, if VMCORE is of a Xen host and any of the levels needs dom0's kernel.
pub fn dom0(settings: &Settings, opened: &Arc<Source>) -> anyhow::Result<Dom0> {
    let known = knowledge(settings)?;
    Ok(subject::dom0(opened, &known, &options(settings)))
}

/// Returns what a dump at any of the levels is made of.
pub fn subject<'s>(
    settings: &Settings,
    opened: &'s Source,
    dom0: &'s Dom0,
) -> anyhow::Result<Subject<'s>> {
    let found = match kernel(settings, opened) {
        Ok(kernel) => Ok(kernel),
        Err(error) => Err(error.downcast::<KernelError>()?),
    };
    let known = knowledge(settings)?;
    subject::find(opened, dom0, found, known, &options(settings))
        .map_err(|error| source::name_error(error.into(), opened.path()))
}

/// Returns what the options say about VMCORE.
fn knowledge(settings: &Settings) -> anyhow::Result<Knowledge> {
    let kernel = settings.vmcoreinfo.as_deref();
    Ok(Knowledge {
        host: Given {
            vmcoreinfo: hypervisors(settings)?,
            phys_start: settings.xen_phys_start.map(PhysAddr),
        },
        kernel: kernel.map(source::read_vmcoreinfo).transpose()?,
        cache_pages: PhysicalMemory::DEFAULT_CACHE_PAGES,
    })
}

/// Returns the hypervisor's VMCOREINFO that the options give, or that of its linked image.
fn hypervisors(settings: &Settings) -> anyhow::Result<Option<Vmcoreinfo>> {
    let text = settings.xen_vmcoreinfo.as_deref();
    #[cfg(feature = "dwarf")]
    if let (None, Some(xen_syms)) = (text, &settings.xen_syms) {
        let text = linked_vmcoreinfo(&Vmlinux::open(xen_syms)?)?;
        return Ok(Some(Vmcoreinfo::parse(text.as_bytes(), 0)?));
    }
    text.map(source::read_text).transpose()
}

/// Returns the options that determine what must be found.
fn options(settings: &Settings) -> DumpOptions {
    let mut levels = settings.levels.iter().copied();
    let level = levels.find(|level| level.needs_struct_pages());
    DumpOptions {
        level: level.unwrap_or_default(),
        io: io_method(settings),
        owners: owners(settings),
        ..DumpOptions::default()
    }
}

/// Returns whose memory of a Xen host is dumped.
pub fn owners(settings: &Settings) -> Owners {
    match settings.exclude_xen_domains {
        true => Owners::WITHOUT_GUESTS,
        false => Owners::ALL,
    }
}

fn is_without_kaslr(info: &Vmcoreinfo) -> bool {
    info.kernel_offset().unwrap_or(0) == 0
}

fn show(settings: &Settings, kernel: &Kernel, path: &Path) {
    let place = if kernel.found_in_memory() {
        "memory"
    } else {
        "a note or a file"
    };
    settings.messages.debug(&format!(
        "{}: Linux {}, by the VMCOREINFO in {place}:\n{}\n",
        path.display(),
        kernel.utsname().release(),
        kernel.info().text()
    ));
}
