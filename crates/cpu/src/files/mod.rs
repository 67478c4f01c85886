//! Scheduler domains as a directory of files, in the layout of the kernel's own: found out when
//! somebody looks, and kept nowhere. CPUs that come and go cost it nothing.

mod layout;
mod number;

use crate::domains::SchedDomain;
use crate::list::CpuList;
use crate::source::{DomainSource, Running, SourceError};
use crate::system::System;
use crate::tree::DomainTree;
use crate::tune::{Change, Tunable, TuneError, Tuner};

pub use layout::Layout;
pub use number::Inode;

/// Who tells which CPUs there are, and the domains of each, at the moment of asking.
pub trait Chains: Send + Sync {
    /// CPUs that are online.
    ///
    /// # Errors
    /// They are not told.
    fn online(&self) -> Result<CpuList, SourceError>;

    /// The domains of a CPU, the smallest first, as they were at one moment.
    ///
    /// # Errors
    /// They cannot be read.
    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError>;
}

impl Chains for Running {
    fn online(&self) -> Result<CpuList, SourceError> {
        Ok(System::running().online()?)
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        DomainSource::chain(self, cpu)
    }
}

/// What was read once stays.
impl Chains for DomainTree {
    fn online(&self) -> Result<CpuList, SourceError> {
        Ok(self.cpus.keys().copied().collect())
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        Ok(self.cpus.get(&cpu).cloned().unwrap_or_default())
    }
}

/// The files of all CPUs' domains: `cpuN/domainM/FILE`.
pub struct DomainFiles<C> {
    chains: C,
    layout: Layout,
    /// Writes to the kernel; without it nothing can be written.
    tuner: Option<Tuner>,
}

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Nothing is there, or no more.
    #[error("it is not there")]
    Gone,
    /// The domains cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It is not written.
    #[error("{path}: {source}")]
    Tune {
        /// The file.
        path: String,
        /// Why.
        source: TuneError,
    },
    /// It is for reading only.
    #[error("{path}: can only be read; {expected}")]
    ReadOnly {
        /// The file.
        path: String,
        /// What can be written instead.
        expected: &'static str,
    },
}

/// What is at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Whether it can be written.
    pub writable: bool,
    /// Bytes that are in it now; of a directory 0.
    pub size: u64,
}

impl<C: Chains> DomainFiles<C> {
    /// Those of `chains`. With `tuner`, tunables can be written.
    pub fn new(chains: C, layout: Layout, tuner: Option<Tuner>) -> Self {
        Self {
            chains,
            layout,
            tuner,
        }
    }

    /// Whether any file can be written.
    pub fn is_writable(&self) -> bool {
        self.tuner.is_some()
    }

    /// What is at `spot`.
    ///
    /// # Errors
    /// [`FilesError::Gone`], or the domains cannot be read.
    pub fn look(&self, spot: Inode) -> Result<Attributes, FilesError> {
        match spot {
            Inode::Root => {}
            Inode::Cpu(cpu) => self.is_online(cpu)?,
            Inode::Domain(cpu, number) => {
                self.domain(cpu, number)?;
            }
            Inode::File(.., file) => {
                return Ok(Attributes {
                    writable: self.is_tunable(file),
                    size: self.read(spot)?.len() as u64,
                });
            }
        }
        Ok(Attributes::default())
    }

    /// What a directory has by a name.
    ///
    /// # Errors
    /// As for [`DomainFiles::look`].
    pub fn find(&self, directory: Inode, name: &str) -> Result<(Inode, Attributes), FilesError> {
        let spot = match directory {
            Inode::Root => numbered(name, "cpu").map(Inode::Cpu),
            Inode::Cpu(cpu) => numbered(name, "domain").map(|number| Inode::Domain(cpu, number)),
            Inode::Domain(cpu, number) => {
                layout::file(name).map(|file| Inode::File(cpu, number, file))
            }
            Inode::File(..) => None,
        };
        let spot = spot.filter(|spot| Inode::of(spot.number()) == Some(*spot));
        let spot = spot.ok_or(FilesError::Gone)?;
        Ok((spot, self.look(spot)?))
    }

    /// What is in a directory, by rising numbers.
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

    /// What is in a file now.
    ///
    /// # Errors
    /// As for [`DomainFiles::look`].
    pub fn read(&self, spot: Inode) -> Result<String, FilesError> {
        let Inode::File(cpu, number, file) = spot else {
            return Err(FilesError::Gone);
        };
        let domain = self.domain(cpu, number)?;
        self.layout.text(&domain, file).ok_or(FilesError::Gone)
    }

    /// Sets a tunable to what was written to its file.
    ///
    /// # Errors
    /// [`FilesError::Gone`], it is no tunable or no number, or the kernel does not take it.
    pub fn write(&self, spot: Inode, text: &[u8]) -> Result<(), FilesError> {
        let Inode::File(cpu, number, file) = spot else {
            return Err(FilesError::Gone);
        };
        let name = layout::name(file).ok_or(FilesError::Gone)?;
        let path = format!("cpu{cpu}/domain{number}/{name}");
        let (Some(tuner), Some(tunable)) = (&self.tuner, Tunable::by_name(name)) else {
            return Err(FilesError::ReadOnly {
                path,
                expected: "what can be written is min_interval, max_interval, busy_factor, imbalance_pct and \
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
        set().map_err(|source| FilesError::Tune { path, source })
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

    /// A CPU that is offline has no domains, so that nothing else need be asked.
    fn domain(&self, cpu: u32, number: u32) -> Result<SchedDomain, FilesError> {
        let chain = self.chains.chain(cpu)?;
        let domain = chain.into_iter().nth(number as usize);
        domain.ok_or(FilesError::Gone)
    }
}

/// The number behind `prefix`, written as the kernel writes it.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    // No `+1` and no `01`.
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests;
