//! The job, and the valid combinations of options.

use std::path::PathBuf;

use super::settings::Settings;

/// The work of one run.
pub enum Job {
    /// Rearrange the flattened stream on standard input to a file.
    Rearrange { dumpfile: PathBuf },
    /// Reassemble the parts of a split dump to one file.
    Reassemble {
        parts: Vec<PathBuf>,
        dumpfile: PathBuf,
    },
    /// Write the kernel log to a file.
    Dmesg {
        vmcore: Vec<PathBuf>,
        logfile: PathBuf,
    },
    /// Count pages.
    MemUsage { vmcore: Vec<PathBuf> },
    /// Create VMCOREINFO from VMLINUX or XEN-SYMS.
    #[cfg(feature = "dwarf")]
    Generate { linked: Linked, vmcoreinfo: PathBuf },
    /// Make a dump.
    Create {
        vmcore: Vec<PathBuf>,
        target: Target,
    },
}

/// A linked image with debug information.
#[cfg(feature = "dwarf")]
pub enum Linked {
    Vmlinux(PathBuf),
    XenSyms(PathBuf),
}

/// The target of a dump.
pub enum Target {
    File(PathBuf),
    /// Flattened, to standard output.
    Stdout,
    /// One file per part.
    Split(Vec<PathBuf>),
}

impl Job {
    /// Returns the job that the options describe; `None` for an invalid combination, which a
    /// message may have explained.
    pub fn of(settings: &Settings) -> Option<Self> {
        #[cfg(feature = "dwarf")]
        if let Some(vmcoreinfo) = &settings.generate {
            return generate(settings, vmcoreinfo);
        }
        if settings.rearrange {
            rearrange(settings)
        } else if settings.reassemble {
            reassemble(settings)
        } else {
            create(settings)
        }
    }
}

/// Returns true if there are options for making a dump.
fn makes_a_dump(settings: &Settings) -> bool {
    let level = settings.levels.first().map_or(0, |level| level.number());
    settings.compress
        || level != 0
        || settings.elf
        || settings.vmcoreinfo.is_some()
        || settings.vmlinux.is_some()
        || settings.flattened
        || settings.exclude_xen_domains
        || settings.exclude_vmemmap
        || settings.xen_vmcoreinfo.is_some()
        || settings.xen_syms.is_some()
}

#[cfg(feature = "dwarf")]
fn generate(settings: &Settings, vmcoreinfo: &std::path::Path) -> Option<Job> {
    let level = settings.levels.first().map_or(0, |level| level.number());
    let others = settings.compress
        || level != 0
        || settings.elf
        || settings.vmcoreinfo.is_some()
        || settings.flattened
        || settings.rearrange
        || settings.split
        || settings.reassemble
        || !settings.operands.is_empty();
    let linked = match (&settings.vmlinux, &settings.xen_syms) {
        (Some(vmlinux), None) => Linked::Vmlinux(vmlinux.clone()),
        (None, Some(xen_syms)) => Linked::XenSyms(xen_syms.clone()),
        _ => return None,
    };
    (!others).then(|| Job::Generate {
        linked,
        vmcoreinfo: vmcoreinfo.to_owned(),
    })
}

fn rearrange(settings: &Settings) -> Option<Job> {
    match &settings.operands[..] {
        [dumpfile] if !makes_a_dump(settings) => Some(Job::Rearrange {
            dumpfile: dumpfile.clone(),
        }),
        _ => None,
    }
}

fn reassemble(settings: &Settings) -> Option<Job> {
    if makes_a_dump(settings) || settings.split {
        return None;
    }
    if settings.dry_run {
        return explain(settings, "--dry-run cannot be used with --reassemble.");
    }
    match settings.operands.split_last() {
        Some((dumpfile, parts)) if !parts.is_empty() => Some(Job::Reassemble {
            parts: parts.to_vec(),
            dumpfile: dumpfile.clone(),
        }),
        _ => None,
    }
}

fn create(settings: &Settings) -> Option<Job> {
    if settings.compress && settings.elf
        || settings.vmcoreinfo.is_some() && settings.vmlinux.is_some()
    {
        return None;
    }
    if settings.dry_run && settings.dmesg {
        return explain(settings, "--dry-run cannot be used with --dump-dmesg.");
    }
    if settings.flattened && settings.split {
        return None;
    }
    if settings.threads.is_some() && settings.split {
        return explain(settings, "--num-threads cannot used with --split.");
    }
    if settings.threads.is_some() && settings.elf {
        return explain(settings, "--num-threads cannot used with ELF format.");
    }
    if settings.partial_dmesg && !settings.dmesg {
        return None;
    }
    let (vmcore, operands) = vmcore_and_others(settings)?;
    let job = |vmcore, target| Job::Create { vmcore, target };
    if settings.split {
        if operands.len() < 2 {
            return None;
        }
        if settings.elf {
            return explain(
                settings,
                "Options for splitting dumpfile cannot be used with Elf format.",
            );
        }
        // --dump-dmesg and --mem-usage take precedence over --split, as in makedumpfile.
        return match (settings.dmesg, settings.mem_usage) {
            (false, false) => Some(job(vmcore, Target::Split(operands))),
            (true, _) => None,
            (false, true) => Some(Job::MemUsage { vmcore }),
        };
    }
    let mut operands = operands.into_iter();
    match (operands.next(), operands.next()) {
        (Some(_), _) if settings.flattened => None,
        (Some(logfile), None) if settings.dmesg => Some(Job::Dmesg { vmcore, logfile }),
        (Some(_), None) if settings.mem_usage => Some(Job::MemUsage { vmcore }),
        (Some(dumpfile), None) => Some(job(vmcore, Target::File(dumpfile))),
        (None, None) if settings.mem_usage => Some(Job::MemUsage { vmcore }),
        (None, None) if settings.flattened && !settings.dmesg => Some(job(vmcore, Target::Stdout)),
        _ => None,
    }
}

/// Returns the files of VMCORE, and the operands behind it. With --diskset, all operands are.
fn vmcore_and_others(settings: &Settings) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    if !settings.diskset.is_empty() {
        return Some((settings.diskset.clone(), settings.operands.clone()));
    }
    let (vmcore, others) = settings.operands.split_first()?;
    Some((vec![vmcore.clone()], others.to_vec()))
}

fn explain(settings: &Settings, text: &str) -> Option<Job> {
    settings.messages.common(&format!("{text}\n"));
    None
}
