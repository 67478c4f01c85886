//! Number of online hardware threads per core.

use std::collections::BTreeSet;

use super::{Cpus, HotplugError, Plan, SysRoot};
use crate::list::CpuList;

/// Number of threads that each core keeps online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One thread.
    Off,
    /// All threads.
    On,
    /// The given number of threads.
    Number(usize),
}

/// Parses `on`, `off` or a number.
impl std::str::FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!(
                    "{text:?}: expected `on`, `off`, or the number of threads to keep per core"
                )),
            },
        }
    }
}

impl Plan {
    /// Plans to keep `threads` of each core online. Threads go offline one by one, as in
    /// [`Plan::offline`]; then smt/control is set, and the kernel has nothing left to do.
    /// Threads that the kernel keeps offline come online all at once when smt/control is set.
    ///
    /// # Errors
    /// As for [`Plan::offline`] and [`Plan::online`]; or SMT is disabled until the next boot,
    /// or cores have fewer threads.
    pub fn smt(root: &SysRoot, cpus: &Cpus, threads: Threads) -> Result<Self, HotplugError> {
        let most = cpus.smt.threads;
        let is_kernels = cpus.smt.is_kernels();
        let by_number = cpus.smt.per_core.filter(|_| !is_kernels);
        let mut plan = match threads {
            Threads::Number(asked) if by_number.is_some_and(|all| asked <= all) => {
                Self::smt_by_number(root, cpus, asked, by_number.unwrap_or(asked))?
            }
            Threads::On => Self::smt_on(root, cpus, "on")?,
            Threads::Off | Threads::Number(1) => Self::smt_off(root, cpus, 1, "off")?,
            Threads::Number(asked) if asked <= most => {
                Self::smt_off(root, cpus, asked, &asked.to_string())?
            }
            Threads::Number(asked) if is_kernels => {
                let mut plan = Self::smt_on(root, cpus, &asked.to_string())?;
                // Only the kernel knows which offline threads are among the first `asked` of
                // their cores.
                plan.order.clear();
                plan
            }
            Threads::Number(asked) => return Err(HotplugError::Threads { asked, most }),
        };
        if !is_kernels {
            let says = match &cpus.smt.control {
                Some(word) => format!("smt/control is {word}"),
                None => "there is no smt/control".into(),
            };
            let by = match by_number {
                Some(_) => "numbers",
                None => "cores",
            };
            plan.notes.push(format!(
                "{says}: threads are identified only by their {by}, and the kernel's policy is not set"
            ));
        }
        Ok(plan)
    }

    /// Plans by the numbers of CPUs, for kernels of Power without a policy (before 6.6). As
    /// with the kernel's policy, cores without an online thread stay offline.
    fn smt_by_number(
        root: &SysRoot,
        cpus: &Cpus,
        kept: usize,
        per_core: usize,
    ) -> Result<Self, HotplugError> {
        let thread = |cpu: &u32| *cpu as usize % per_core;
        let core = |cpu: u32| cpu as usize / per_core;
        let cores: BTreeSet<usize> = cpus.online.iter().map(core).collect();
        let going: CpuList = cpus
            .online
            .iter()
            .filter(|cpu| thread(cpu) >= kept)
            .collect();
        let coming: CpuList = cpus
            .offline
            .iter()
            .filter(|cpu| thread(cpu) < kept && cores.contains(&core(*cpu)))
            .collect();
        if going.is_empty() {
            return Self::online(root, cpus, &coming);
        }
        let mut plan = Self::offline(root, cpus, &going)?;
        if !coming.is_empty() {
            plan.notes.push(format!(
                "CPUs {coming} are among the first {kept} threads of their cores, and stay offline: repeat the command"
            ));
        }
        Ok(plan)
    }

    fn smt_off(
        root: &SysRoot,
        cpus: &Cpus,
        kept: usize,
        policy: &str,
    ) -> Result<Self, HotplugError> {
        let extra = |core: &&CpuList| core.iter().skip(kept).collect::<Vec<u32>>();
        let going: CpuList = cpus.cores().iter().flat_map(extra).collect();
        let mut plan = Self::offline(root, cpus, &going)?;
        // `forceoff` cannot be changed until the next boot.
        let has = cpus.smt.control.as_deref();
        if cpus.smt.is_kernels() && has != Some(policy) && has != Some("forceoff") {
            plan.control_last = Some(policy.to_owned());
        }
        Ok(plan)
    }

    fn smt_on(root: &SysRoot, cpus: &Cpus, policy: &str) -> Result<Self, HotplugError> {
        let has = cpus.smt.control.as_deref();
        if let Some(word @ "forceoff") = has {
            return Err(HotplugError::ForcedOff(word.to_owned()));
        }
        let mut plan = Self::online(root, cpus, &cpus.present)?;
        plan.already = CpuList::default();
        if cpus.smt.is_kernels() && has != Some(policy) {
            plan.control_first = Some(policy.to_owned());
        }
        Ok(plan)
    }
}
