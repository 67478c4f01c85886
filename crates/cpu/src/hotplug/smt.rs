//! Hardware threads of all cores.

use super::{Cpus, HotplugError, Plan, SysRoot};
use crate::list::CpuList;

/// How many threads each core is to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One.
    Off,
    /// All.
    On,
    /// So many.
    Number(usize),
}

/// `on`, `off` or a number.
impl std::str::FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!(
                    "{text:?}: expected `on`, `off`, or how many threads each core keeps"
                )),
            },
        }
    }
}

impl Plan {
    /// Leaves each core so many threads. Threads go offline one by one, as in [`Plan::offline`],
    /// and then the kernel's smt/control is set, which finds nothing left to do. Threads that
    /// are to come up, come up by smt/control all at once where it keeps them offline.
    ///
    /// # Errors
    /// As of the others; or the kernel was told to have no threads, or cores have not so many.
    pub fn smt(place: &SysRoot, cpus: &Cpus, threads: Threads) -> Result<Self, HotplugError> {
        let most = cpus.smt.threads;
        let is_kernels = cpus.smt.is_kernels();
        let mut plan = match threads {
            Threads::On => Self::smt_on(place, cpus, "on")?,
            Threads::Off | Threads::Number(1) => Self::smt_off(place, cpus, 1, "off")?,
            Threads::Number(asked) if asked <= most => {
                Self::smt_off(place, cpus, asked, &asked.to_string())?
            }
            Threads::Number(asked) if is_kernels => {
                let mut plan = Self::smt_on(place, cpus, &asked.to_string())?;
                // Which of them belong to the first so many of their cores, the kernel knows.
                plan.order.clear();
                plan
            }
            Threads::Number(asked) => return Err(HotplugError::Threads { asked, most }),
        };
        if !is_kernels {
            let says = match &cpus.smt.control {
                Some(word) => format!("smt/control says {word}"),
                None => "there is no smt/control".into(),
            };
            plan.notes.push(format!(
                "{says}: threads are told by their cores alone, and the kernel keeps no policy"
            ));
        }
        Ok(plan)
    }

    fn smt_off(
        place: &SysRoot,
        cpus: &Cpus,
        kept: usize,
        policy: &str,
    ) -> Result<Self, HotplugError> {
        let extra = |core: &&CpuList| core.iter().skip(kept).collect::<Vec<u32>>();
        let going: CpuList = cpus.cores().iter().flat_map(extra).collect();
        let mut plan = Self::offline(place, cpus, &going)?;
        // Nothing follows `forceoff` until the next boot.
        let has = cpus.smt.control.as_deref();
        if cpus.smt.is_kernels() && has != Some(policy) && has != Some("forceoff") {
            plan.control_last = Some(policy.to_owned());
        }
        Ok(plan)
    }

    fn smt_on(place: &SysRoot, cpus: &Cpus, policy: &str) -> Result<Self, HotplugError> {
        let has = cpus.smt.control.as_deref();
        if let Some(word @ "forceoff") = has {
            return Err(HotplugError::ForcedOff(word.to_owned()));
        }
        let mut plan = Self::online(place, cpus, &cpus.present)?;
        plan.already = CpuList::default();
        if cpus.smt.is_kernels() && has != Some(policy) {
            plan.control_first = Some(policy.to_owned());
        }
        Ok(plan)
    }
}
