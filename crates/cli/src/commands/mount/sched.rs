//! `sched/domains`, laid out as in debugfs.

use std::sync::{Arc, OnceLock};

use crate::fuse::{ContentError, Entry, Text};
use bigiron_inspect::program::Names as ProgramNames;
use bigiron_inspect::{Program, SchedDomains};
use bigiron_kernel::Kernel;

type Listing = Result<Vec<(String, Entry)>, ContentError>;

/// The kernel's symbols and types, read on first use.
pub struct Names {
    kernel: &'static Kernel<'static>,
    names: OnceLock<Result<Arc<ProgramNames>, ContentError>>,
}

impl Names {
    /// Creates the names of `kernel`, not yet read.
    pub fn new(kernel: &'static Kernel<'static>) -> Self {
        Self {
            kernel,
            names: OnceLock::new(),
        }
    }

    /// Returns the program with all its steps, for one listing.
    fn program(&self) -> Result<Program<'static, 'static>, ContentError> {
        let read = || Ok(Arc::clone(Program::open(self.kernel)?.names()));
        let names = self.names.get_or_init(read);
        let names = names.as_ref().map_err(Clone::clone)?;
        Ok(Program::with(self.kernel, Arc::clone(names)))
    }
}

/// Creates the directory `sched`.
pub fn directory(names: Arc<Names>) -> Entry {
    Entry::directory(move || {
        let names = Arc::clone(&names);
        let domains = Entry::directory(move || cpus(&names));
        Ok(vec![("domains".into(), domains)])
    })
}

fn cpus(names: &Arc<Names>) -> Listing {
    let cpus = SchedDomains::new(&names.program()?)?.cpus()?;
    let entry = |cpu| {
        let names = Arc::clone(names);
        let domains = Entry::directory(move || domains(&names, cpu));
        (format!("cpu{cpu}"), domains)
    };
    Ok(cpus.into_iter().map(entry).collect())
}

fn domains(names: &Names, cpu: usize) -> Listing {
    let found = SchedDomains::new(&names.program()?)?.of(cpu)?;
    let entry = |domain: bigiron_cpu::SchedDomain| {
        let name = format!("domain{}", domain.number);
        let files = Entry::directory(move || {
            let files = domain.files().into_iter();
            let file = |text: String| Entry::file(Text::new(move || Ok(text.clone().into())));
            Ok(files
                .map(|(name, text)| (name.into(), file(text)))
                .collect())
        });
        (name, files)
    };
    Ok(found.into_iter().map(entry).collect())
}
