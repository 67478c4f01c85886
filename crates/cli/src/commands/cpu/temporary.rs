//! Shows the kernel's own files of domains for a while, and hides them again whatever happens: as
//! `bigiron cpu offline` changes settings.

use std::path::Path;
use std::time::Duration;

use bigiron_cpu::hotplug::SysRoot;
use bigiron_cpu::hotplug::settings::Settings;
use bigiron_cpu::tune::{RestoreSetting, TemporarySettings};

use super::hotplug::watchdog;

/// By a journal and a watchdog process.
pub struct BySettings {
    /// For another command that changes settings.
    pub patience: Duration,
    /// What this one does.
    pub command: &'static str,
}

struct Held(Settings);

impl TemporarySettings for BySettings {
    fn set(&self, file: &Path, value: &str) -> Result<Box<dyn RestoreSetting>, String> {
        let place = SysRoot::running();
        let watchdog = watchdog(&place);
        let begun = Settings::begin(&place, &watchdog, self.patience, self.command);
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
