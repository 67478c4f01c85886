//! Scheduler domains as a directory tree, in the layout of the kernel's own. Contents are
//! generated on access and not stored, so CPU hotplug costs nothing.

mod layout;
mod number;

use crate::domains::SchedDomain;
use crate::source::{Chains, SourceError};
use crate::tune::{Change, Tunable, TuneError, Tuner};

pub use layout::Layout;
pub use number::Inode;

/// Files of the domains of all CPUs: `cpuN/domainM/FILE`.
pub struct DomainFiles<C> {
    chains: C,
    layout: Layout,
    /// Writer to the kernel; without it, all files are read-only.
    tuner: Option<Tuner>,
}

/// Error of reading or writing a file.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The file or directory does not exist, or no longer exists.
    #[error("no such file or directory")]
    Gone,
    /// The domains cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The tunable cannot be set.
    #[error("{path}: {cause}")]
    Tune {
        /// Path of the file.
        path: String,
        /// Reason.
        cause: TuneError,
    },
    /// The file is read-only.
    #[error("{path}: the file is read-only; {expected}")]
    ReadOnly {
        /// Path of the file.
        path: String,
        /// Description of the writable files.
        expected: &'static str,
    },
}

/// Attributes of a file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// True if the file is writable.
    pub writable: bool,
    /// Current size in bytes; 0 for a directory.
    pub size: u64,
}

impl<C: Chains> DomainFiles<C> {
    /// Creates the files of `chains`. With `tuner`, tunables are writable.
    pub fn new(chains: C, layout: Layout, tuner: Option<Tuner>) -> Self {
        Self {
            chains,
            layout,
            tuner,
        }
    }

    /// Returns true if any file is writable.
    pub fn is_writable(&self) -> bool {
        self.tuner.is_some()
    }

    /// Returns the attributes of `inode`.
    ///
    /// # Errors
    /// [`FilesError::Gone`], or the domains cannot be read.
    pub fn look(&self, inode: Inode) -> Result<Attributes, FilesError> {
        match inode {
            Inode::Root => {}
            Inode::Cpu(cpu) => self.is_online(cpu)?,
            Inode::Domain(cpu, number) => {
                self.domain(cpu, number)?;
            }
            Inode::File(.., file) => {
                return Ok(Attributes {
                    writable: self.is_tunable(file),
                    size: self.read(inode)?.len() as u64,
                });
            }
        }
        Ok(Attributes::default())
    }

    /// Finds an entry of a directory by name.
    ///
    /// # Errors
    /// As for [`DomainFiles::look`].
    pub fn find(&self, directory: Inode, name: &str) -> Result<(Inode, Attributes), FilesError> {
        let inode = match directory {
            Inode::Root => numbered(name, "cpu").map(Inode::Cpu),
            Inode::Cpu(cpu) => numbered(name, "domain").map(|number| Inode::Domain(cpu, number)),
            Inode::Domain(cpu, number) => {
                layout::file(name).map(|file| Inode::File(cpu, number, file))
            }
            Inode::File(..) => None,
        };
        let inode = inode.filter(|inode| Inode::of(inode.number()) == Some(*inode));
        let inode = inode.ok_or(FilesError::Gone)?;
        Ok((inode, self.look(inode)?))
    }

    /// Returns the entries of a directory, in ascending order of their inode numbers.
    ///
    /// # Errors
    /// As for [`DomainFiles::look`].
    pub fn list(&self, directory: Inode) -> Result<Vec<(String, Inode)>, FilesError> {
        match directory {
            Inode::Root => {
                let online = self.chains.online()?;
                let entry = |cpu| (format!("cpu{cpu}"), Inode::Cpu(cpu));
                Ok(online.iter().map(entry).collect())
            }
            Inode::Cpu(cpu) => {
                self.is_online(cpu)?;
                let count = self.chains.chain(cpu)?.len();
                let entry = |number| (format!("domain{number}"), Inode::Domain(cpu, number));
                Ok((0..count as u32).map(entry).collect())
            }
            Inode::Domain(cpu, number) => {
                let domain = self.domain(cpu, number)?;
                let files = self.layout.files();
                let there = files.filter(|(_, file)| self.layout.text(&domain, *file).is_some());
                let entry = |(name, file): (&'static str, u8)| {
                    (name.to_owned(), Inode::File(cpu, number, file))
                };
                Ok(there.map(entry).collect())
            }
            Inode::File(..) => Err(FilesError::Gone),
        }
    }

    /// Returns the current contents of a file.
    ///
    /// # Errors
    /// As for [`DomainFiles::look`].
    pub fn read(&self, inode: Inode) -> Result<String, FilesError> {
        let Inode::File(cpu, number, file) = inode else {
            return Err(FilesError::Gone);
        };
        let domain = self.domain(cpu, number)?;
        self.layout.text(&domain, file).ok_or(FilesError::Gone)
    }

    /// Sets a tunable to the value written to its file.
    ///
    /// # Errors
    /// [`FilesError::Gone`]; the file is not a tunable; the text is not a number; or the kernel
    /// rejects the value.
    pub fn write(&self, inode: Inode, text: &[u8]) -> Result<(), FilesError> {
        let Inode::File(cpu, number, file) = inode else {
            return Err(FilesError::Gone);
        };
        let name = layout::name(file).ok_or(FilesError::Gone)?;
        let path = format!("cpu{cpu}/domain{number}/{name}");
        let (Some(tuner), Some(tunable)) = (&self.tuner, Tunable::by_name(name)) else {
            return Err(FilesError::ReadOnly {
                path,
                expected: "writable files are min_interval, max_interval, busy_factor, imbalance_pct and \
                           cache_nice_tries of the running kernel",
            });
        };
        let domain = self.domain(cpu, number)?;
        let set = || {
            let value = tunable.parse(text)?;
            let change = Change::of(&domain, tunable, value);
            let mut results = tuner.write(&self.chains, std::slice::from_ref(&change))?;
            results.pop().unwrap_or(Ok(()))
        };
        set().map_err(|cause| FilesError::Tune { path, cause })
    }

    fn is_tunable(&self, file: u8) -> bool {
        let tunable = layout::name(file).and_then(Tunable::by_name);
        self.tuner.is_some() && tunable.is_some()
    }

    fn is_online(&self, cpu: u32) -> Result<(), FilesError> {
        match self.chains.online()?.contains(cpu) {
            true => Ok(()),
            false => Err(FilesError::Gone),
        }
    }

    /// Returns a domain. Offline CPUs have no domains, so they need no separate check.
    fn domain(&self, cpu: u32, number: u32) -> Result<SchedDomain, FilesError> {
        let chain = self.chains.chain(cpu)?;
        let domain = chain.into_iter().nth(number as usize);
        domain.ok_or(FilesError::Gone)
    }
}

/// Returns the number after `prefix`, in the kernel's notation.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    // Neither `+1` nor `01`.
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests;
