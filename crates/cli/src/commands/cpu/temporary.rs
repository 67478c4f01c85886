//! Temporary kernel settings that are always restored, as those of `bigiron cpu offline`: here,
//! to show the kernel's own files of domains.

use std::path::Path;
use std::time::Duration;

use bigiron_cpu::hotplug::SysRoot;
use bigiron_cpu::hotplug::settings::Settings;
use bigiron_cpu::tune::{RestoreSetting, TemporarySettings};

use super::hotplug::watchdog;

/// Temporary settings by means of a journal and a watchdog process.
pub struct JournaledSettings {
    /// Time to wait for another command that changes settings.
    pub lock_timeout: Duration,
    /// Description of this command, for other commands that wait.
    pub command: &'static str,
}

struct Held(Settings);

impl TemporarySettings for JournaledSettings {
    fn set(&self, file: &Path, value: &str) -> Result<Box<dyn RestoreSetting>, String> {
        let root = SysRoot::running();
        let watchdog = watchdog(&root);
        let begun = Settings::begin(&root, &watchdog, self.lock_timeout, self.command);
        let (mut settings, _) = begun.map_err(|error| error.to_string())?;
        let set = settings.set(file, value);
        set.map_err(|error| error.to_string())?;
        Ok(Box::new(Held(settings)))
    }
}

impl RestoreSetting for Held {
    fn restore(self: Box<Self>) -> Result<(), String> {
        let undone = self.0.restore();
        undone.map(|_| ()).map_err(|error| error.to_string())
    }
}
