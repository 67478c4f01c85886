//! What is about to be done, found out before anything is touched.

use std::path::PathBuf;

use rustix::fs::{Access, access};
use serde::Serialize;

use super::sys_root::read;
use super::{Cpus, HotplugError, OfflineBlockers, SysRoot, order};
use crate::list::CpuList;

/// Which way CPUs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Offline.
    Offline,
    /// Online.
    Online,
}

/// A setting for the duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub before: String,
    /// What it is to say.
    pub during: String,
}

/// What is to be done.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Which way.
    pub direction: Direction,
    /// CPUs in their order.
    pub order: Vec<u32>,
    /// Those that are where they should be.
    pub already: CpuList,
    /// What to know before.
    pub hindrances: OfflineBlockers,
    /// Settings that are changed for the duration.
    pub settings: Vec<Wanted>,
    /// Written to smt/control before CPUs are brought up: the kernel may bring them up by itself.
    pub control_first: Option<String>,
    /// Written to smt/control when CPUs have gone, as the kernel's policy from then on.
    pub control_last: Option<String>,
    /// What is not as one might expect.
    pub notes: Vec<String>,
}

impl Plan {
    /// Takes CPUs offline.
    ///
    /// # Errors
    /// Some are not there or cannot go, or none would be left.
    pub fn offline(place: &SysRoot, cpus: &Cpus, asked: &CpuList) -> Result<Self, HotplugError> {
        check_present(cpus, asked)?;
        let going = asked.and(&cpus.online);
        let fixed = going.and(&cpus.fixed);
        let left = cpus.online.without(&going);
        if left.without(&cpus.isolated).is_empty() && !going.is_empty() {
            return Err(HotplugError::Last {
                asked: asked.clone(),
                left: match left.is_empty() {
                    true => "none".into(),
                    false => format!("{left}, which are isolated"),
                },
            });
        }
        if !fixed.is_empty() {
            return Err(HotplugError::Fixed(fixed));
        }
        let order = order::order(&place.path("sys/devices/system"), &cpus.online, &going);
        let mut plan = Self::new(place, Direction::Offline, order);
        plan.already = asked.without(&cpus.online);
        plan.hindrances = OfflineBlockers::of(place, cpus, &going);
        Ok(plan)
    }

    /// Brings CPUs up.
    ///
    /// # Errors
    /// Some are not there.
    pub fn online(place: &SysRoot, cpus: &Cpus, asked: &CpuList) -> Result<Self, HotplugError> {
        check_present(cpus, asked)?;
        // How they lie the kernel tells when they are up.
        let order = asked.without(&cpus.online).iter().collect();
        let mut plan = Self::new(place, Direction::Online, order);
        plan.already = asked.and(&cpus.online);
        Ok(plan)
    }

    fn new(place: &SysRoot, direction: Direction, order: Vec<u32>) -> Self {
        let (settings, notes) = wanted(place);
        Self {
            direction,
            order,
            already: CpuList::default(),
            hindrances: OfflineBlockers::default(),
            settings,
            control_first: None,
            control_last: None,
            notes,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.control_first.is_none() && self.control_last.is_none()
    }

    /// Whether the files that are to be written can be, as far as that can be known before.
    pub(super) fn check_allowed(&self, place: &SysRoot) -> Result<(), HotplugError> {
        let system = place.system();
        let mut files: Vec<PathBuf> = self.order.iter().map(|cpu| system.switch(*cpu)).collect();
        if self.control_first.is_some() || self.control_last.is_some() {
            files.push(system.path("smt/control"));
        }
        for file in files {
            access(&file, Access::WRITE_OK).map_err(|errno| HotplugError::NotAllowed {
                path: file.display().to_string(),
                source: errno.into(),
            })?;
        }
        Ok(())
    }
}

fn check_present(cpus: &Cpus, asked: &CpuList) -> Result<(), HotplugError> {
    let strangers = asked.without(&cpus.present);
    match strangers.is_empty() {
        true => Ok(()),
        false => Err(HotplugError::NotThere {
            asked: strangers,
            present: cpus.present.clone(),
        }),
    }
}

/// Settings that make hotplug faster, as far as they are there and not so already.
fn wanted(place: &SysRoot) -> (Vec<Wanted>, Vec<String>) {
    let (mut settings, mut notes) = (Vec::new(), Vec::new());
    let mut want = |file: PathBuf, is_slow: fn(&str) -> bool, during: &str| {
        if let Some(before) = read(&file).ok().filter(|before| is_slow(before)) {
            let during = during.to_owned();
            settings.push(Wanted {
                file,
                before,
                during,
            });
        }
    };
    // kernel/rcu/update.c: where both are set, rcu_normal wins.
    let normal = read(&place.rcu_normal()).is_ok_and(|value| value != "0");
    if normal {
        let name = place.rcu_normal().display().to_string();
        notes.push(format!(
            "{name} is set: RCU's grace periods cannot be expedited"
        ));
    } else {
        want(place.rcu_expedited(), |before| before == "0", "1");
    }
    want(place.verbose(), |before| before == "Y", "N");
    (settings, notes)
}
