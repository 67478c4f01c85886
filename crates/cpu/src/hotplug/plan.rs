//! Plan of a hotplug operation, computed before anything is changed.

use std::path::PathBuf;

use rustix::fs::{Access, access};
use serde::Serialize;

use super::sys_root::read;
use super::{Cpus, HotplugError, OfflineEffects, SysRoot, order};
use crate::list::CpuList;

/// Direction of a hotplug operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// CPUs are taken offline.
    Offline,
    /// CPUs are brought online.
    Online,
}

/// Kernel setting to change for the duration of the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// Path of the file.
    pub file: PathBuf,
    /// Value before the operation.
    pub before: String,
    /// Value during the operation.
    pub during: String,
}

/// Plan of a hotplug operation.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Direction of the operation.
    pub direction: Direction,
    /// CPUs, in the order of the operation.
    pub order: Vec<u32>,
    /// Requested CPUs that already are in the requested state.
    pub already: CpuList,
    /// Side effects of taking the CPUs offline.
    pub effects: OfflineEffects,
    /// Settings to change for the duration of the operation.
    pub settings: Vec<SettingChange>,
    /// Value written to smt/control before CPUs are brought online; the kernel may then bring
    /// them online itself.
    pub control_first: Option<String>,
    /// Value written to smt/control after the CPUs went offline; the kernel's policy from then
    /// on.
    pub control_last: Option<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

impl Plan {
    /// Plans taking CPUs offline.
    ///
    /// # Errors
    /// A CPU does not exist or cannot go offline, or no CPU would be left for ordinary tasks.
    pub fn offline(root: &SysRoot, cpus: &Cpus, asked: &CpuList) -> Result<Self, HotplugError> {
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
        let order = order::order(&root.path("sys/devices/system"), &cpus.online, &going);
        let mut plan = Self::new(root, Direction::Offline, order);
        plan.already = asked.without(&cpus.online);
        plan.effects = OfflineEffects::of(root, cpus, &going);
        Ok(plan)
    }

    /// Plans bringing CPUs online.
    ///
    /// # Errors
    /// A CPU does not exist.
    pub fn online(root: &SysRoot, cpus: &Cpus, asked: &CpuList) -> Result<Self, HotplugError> {
        check_present(cpus, asked)?;
        // Ascending: the kernel reports the topology of a CPU only while it is online.
        let order = asked.without(&cpus.online).iter().collect();
        let mut plan = Self::new(root, Direction::Online, order);
        plan.already = asked.and(&cpus.online);
        Ok(plan)
    }

    fn new(root: &SysRoot, direction: Direction, order: Vec<u32>) -> Self {
        let (settings, notes) = wanted(root);
        Self {
            direction,
            order,
            already: CpuList::default(),
            effects: OfflineEffects::default(),
            settings,
            control_first: None,
            control_last: None,
            notes,
        }
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.control_first.is_none() && self.control_last.is_none()
    }

    /// Checks that all files to be written are writable, as far as this can be known in
    /// advance.
    pub(super) fn check_allowed(&self, root: &SysRoot) -> Result<(), HotplugError> {
        let system = root.system();
        let mut files: Vec<PathBuf> = self.order.iter().map(|cpu| system.switch(*cpu)).collect();
        if self.control_first.is_some() || self.control_last.is_some() {
            files.push(system.path("smt/control"));
        }
        for file in files {
            access(&file, Access::WRITE_OK).map_err(|errno| HotplugError::NotAllowed {
                path: file.display().to_string(),
                cause: errno.into(),
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

/// Returns the settings to change to make hotplug faster, and remarks. Settings that do not
/// exist or already have the value are skipped.
fn wanted(root: &SysRoot) -> (Vec<SettingChange>, Vec<String>) {
    let (mut settings, mut notes) = (Vec::new(), Vec::new());
    let mut want = |file: PathBuf, is_slow: fn(&str) -> bool, during: &str| {
        if let Some(before) = read(&file).ok().filter(|before| is_slow(before)) {
            let during = during.to_owned();
            settings.push(SettingChange {
                file,
                before,
                during,
            });
        }
    };
    // kernel/rcu/update.c: where both are set, rcu_normal wins.
    let normal = read(&root.rcu_normal()).is_ok_and(|value| value != "0");
    if normal {
        let name = root.rcu_normal().display().to_string();
        notes.push(format!(
            "{name} is set: RCU grace periods cannot be expedited"
        ));
    } else {
        want(root.rcu_expedited(), |before| before == "0", "1");
    }
    want(root.verbose(), |before| before == "Y", "N");
    (settings, notes)
}
