//! Shows the kernel's own files of domains for a while, and hides them again whatever happens: as
//! `bigiron cpu offline` changes settings.

use std::path::Path;
use std::time::Duration;

use bigiron_cpu::hotplug::Place;
use bigiron_cpu::hotplug::settings::Settings;
use bigiron_cpu::tune::{ForAWhile, PutBack};

use super::hotplug::watchdog;

/// By a journal and a watchdog process.
pub struct BySettings {
    /// For another command that changes settings.
    pub patience: Duration,
    /// What this one does.
    pub command: &'static str,
}

struct Held(Settings);

impl ForAWhile for BySettings {
    fn set(&self, file: &Path, value: &str) -> Result<Box<dyn PutBack>, String> {
        let place = Place::running();
        let watchdog = watchdog(&place);
        let begun = Settings::begin(&place, &watchdog, self.patience, self.command);
        let (mut settings, _) = begun.map_err(|error| error.to_string())?;
        let set = settings.set(file, value);
        set.map_err(|error| error.to_string())?;
        Ok(Box::new(Held(settings)))
    }
}

impl PutBack for Held {
    fn put_back(self: Box<Self>) -> Result<(), String> {
        let undone = self.0.put_back();
        undone.map(|_| ()).map_err(|error| error.to_string())
    }
}
