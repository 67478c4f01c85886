//! Execution of a plan: CPUs change state one after another.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::settings::{Settings, Undone, WatchdogCommand};
use super::{Direction, HotplugError, Plan, SysRoot, batch, reason};
use crate::list::CpuList;
use crate::system::{CpuError, System};

/// Polling interval while the kernel brings CPUs online by itself.
const LOOK: Duration = Duration::from_millis(20);
/// Timeout for the lock, which the watchdog of a killed command holds briefly.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a hotplug operation.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Command that starts the watchdog.
    pub watchdog: WatchdogCommand,
    /// Name of this command, shown to other commands that find the lock held.
    pub command: String,
    /// Changes no kernel settings, like a plain loop over sysfs.
    pub plain: bool,
    /// Makes the kernel rebuild the scheduler domains once for all CPUs. docs/cpu-hotplug.md
    /// describes the effect on task affinity.
    pub batch: bool,
}

/// A CPU whose state did not change.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// CPU number.
    pub cpu: u32,
    /// Error of the system call.
    pub error: String,
    /// Explanation of the error for CPU hotplug.
    pub meaning: Option<&'static str>,
}

/// Time that one CPU took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuDuration {
    /// CPU number.
    pub cpu: u32,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Outcome of a hotplug operation.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Direction of the operation.
    pub direction: Direction,
    /// CPUs whose state changed.
    pub done: CpuList,
    /// CPUs whose state did not change.
    pub failed: Vec<Failure>,
    /// CPUs not attempted because of an interruption.
    pub left: CpuList,
    /// True if the operation was interrupted.
    pub is_interrupted: bool,
    /// Time of each CPU, in the order of the operation.
    pub took: Vec<CpuDuration>,
    /// Total time in seconds, including changing and restoring settings.
    pub seconds: f64,
    /// Error of writing smt/control.
    pub control_error: Option<String>,
    /// Error of restoring settings.
    pub settings_error: Option<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Returns true if every requested change was made and all settings are restored.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty()
            && self.left.is_empty()
            && !self.is_interrupted
            && self.control_error.is_none()
            && self.settings_error.is_none()
    }
}

/// Carries out a plan. `progress` receives the number of CPUs that have changed state or
/// failed; `is_stopped` is called before each CPU.
///
/// # Errors
/// The user lacks permission, or temporary settings cannot be prepared; nothing was changed.
/// All other errors are in the outcome.
pub fn carry_out(
    root: &SysRoot,
    plan: &Plan,
    options: &Options,
    is_stopped: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize),
) -> Result<Outcome, HotplugError> {
    let begin = Instant::now();
    plan.check_allowed(root)?;
    let mut work = Work {
        system: root.system(),
        outcome: Outcome {
            direction: plan.direction,
            done: CpuList::default(),
            failed: Vec::new(),
            left: CpuList::default(),
            is_interrupted: false,
            took: Vec::new(),
            seconds: 0.0,
            control_error: None,
            settings_error: None,
            notes: plan.notes.clone(),
        },
    };
    let settings = match options.plain {
        true => None,
        false => Some(work.settings(root, plan, options)?),
    };
    work.go(plan, is_stopped, progress);
    if let Some(settings) = settings {
        match settings.restore() {
            Ok(undone) => work.tell_left(&undone),
            Err(error) => work.outcome.settings_error = Some(error.to_string()),
        }
    }
    let mut outcome = work.outcome;
    outcome.seconds = begin.elapsed().as_secs_f64();
    Ok(outcome)
}

struct Work {
    system: System,
    outcome: Outcome,
}

impl Work {
    /// Changes the settings that make hotplug faster. A setting that cannot be changed is
    /// noted; the operation is then slower.
    fn settings(
        &mut self,
        root: &SysRoot,
        plan: &Plan,
        options: &Options,
    ) -> Result<Settings, HotplugError> {
        let (mut settings, undone) =
            Settings::begin(root, &options.watchdog, LOCK_TIMEOUT, &options.command)?;
        for what in undone {
            if let Undone::Yes(what) | Undone::Left(what) = what {
                let note = format!("an earlier command was killed: {what}");
                self.outcome.notes.push(note);
            }
        }
        for wanted in &plan.settings {
            if let Err(error) = settings.set(&wanted.file, &wanted.during) {
                self.outcome
                    .notes
                    .push(format!("{error}; continuing without this setting"));
            }
        }
        if options.batch && !plan.order.is_empty() {
            let cpus = plan.order.iter().copied().collect();
            if let Err(why) = batch::begin(&mut settings, root, &cpus) {
                let note = format!("domains are rebuilt for each CPU: {why}");
                self.outcome.notes.push(note);
            }
        }
        Ok(settings)
    }

    fn tell_left(&mut self, undone: &[Undone]) {
        for what in undone {
            if let Undone::Left(what) = what {
                self.outcome.notes.push(what.clone());
            }
        }
    }

    fn go(&mut self, plan: &Plan, is_stopped: &dyn Fn() -> bool, progress: &mut dyn FnMut(usize)) {
        if let Some(value) = &plan.control_first {
            self.control_first(value, progress);
        }
        let by_kernel = self.outcome.done.clone();
        let order = plan.order.iter().copied();
        let order: Vec<u32> = order.filter(|cpu| !by_kernel.contains(*cpu)).collect();
        for (root, cpu) in order.iter().enumerate() {
            if is_stopped() {
                self.outcome.is_interrupted = true;
                self.outcome.left = order.iter().skip(root).copied().collect();
                break;
            }
            self.one(*cpu);
            progress(self.outcome.took.len() + self.outcome.failed.len());
        }
        self.outcome.done = self.outcome.took.iter().map(|took| took.cpu).collect();
        if let Some(value) = &plan.control_last {
            if self.outcome.is_interrupted {
                let note = format!(
                    "smt/control is not set to {value}, because the operation was interrupted"
                );
                self.outcome.notes.push(note);
            } else {
                self.control_last(value);
            }
        }
    }

    fn one(&mut self, cpu: u32) {
        let begin = Instant::now();
        let direction = self.outcome.direction;
        match self.system.set_online(cpu, direction == Direction::Online) {
            Ok(()) => self.outcome.took.push(CpuDuration {
                cpu,
                seconds: begin.elapsed().as_secs_f64(),
            }),
            Err(error) => self.outcome.failed.push(Failure {
                cpu,
                meaning: code(&error).and_then(|code| reason::meaning(direction, code)),
                error: error.to_string(),
            }),
        }
    }

    /// Sets smt/control. The kernel brings all CPUs online in one call, which cannot be
    /// interrupted; meanwhile, progress is read from the list of online CPUs.
    fn control_first(&mut self, value: &str, progress: &mut dyn FnMut(usize)) {
        let system = self.system.clone();
        let Ok(mut online) = system.online() else {
            return;
        };
        let result = thread::scope(|scope| {
            let writer = scope.spawn(|| system.set_smt_control(value));
            let mut since = Instant::now();
            loop {
                let is_end = writer.is_finished();
                if let Ok(now) = system.online() {
                    let new = now.without(&online);
                    let each = since.elapsed().as_secs_f64() / new.len().max(1) as f64;
                    if !new.is_empty() {
                        since = Instant::now();
                    }
                    let took = new.iter().map(|cpu| CpuDuration { cpu, seconds: each });
                    self.outcome.took.extend(took);
                    online = now;
                    progress(self.outcome.took.len());
                }
                if is_end {
                    break writer.join();
                }
                thread::sleep(LOOK);
            }
        });
        self.outcome.done = self.outcome.took.iter().map(|took| took.cpu).collect();
        if let Ok(Err(error)) = result {
            let advice = match takes_no_number(value, &error) {
                true => "; this kernel accepts only `on` and `off`",
                false => "",
            };
            self.outcome.control_error = Some(format!("cannot be set to {value}: {error}{advice}"));
        }
    }

    fn control_last(&mut self, value: &str) {
        match self.system.set_smt_control(value) {
            Ok(()) => {}
            Err(error) if takes_no_number(value, &error) => self.outcome.notes.push(format!(
                "this kernel's smt/control accepts no number: the CPUs are as requested, but the kernel's policy is not {value}"
            )),
            Err(error) => {
                self.outcome.control_error = Some(format!("cannot be set to {value}: {error}"));
            }
        }
    }
}

/// Returns true if the kernel accepts no number: without CONFIG_SMT_NUM_THREADS_DYNAMIC, only
/// `on` and `off` are valid.
fn takes_no_number(value: &str, error: &CpuError) -> bool {
    value.parse::<u32>().is_ok() && code(error) == Some(rustix::io::Errno::INVAL)
}

fn code(error: &CpuError) -> Option<rustix::io::Errno> {
    let CpuError::File { cause, .. } = error else {
        return None;
    };
    rustix::io::Errno::from_io_error(cause)
}
