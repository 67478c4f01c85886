//! How long a task has not run.

use bigiron_format::VirtAddr;

use crate::program::Program;

/// The kernel's clock when it stopped, as sched_clock counts: nanoseconds since boot.
pub(crate) struct Clock {
    now: u64,
    /// Per CPU: how far the clock of its tasks, without the time of interrupts, is behind that
    /// of its run queue.
    behind: Vec<u64>,
}

impl Clock {
    /// Reads the clocks of the run queues: the most advanced one is the latest that is known,
    /// since the clock of an idle CPU stands still.
    pub fn of(program: &Program, cpus: &[usize], last_message: Option<u64>) -> Self {
        let mut now = last_message.unwrap_or(0);
        let mut behind = Vec::new();
        for cpu in cpus {
            let read = || {
                let queue = program.per_cpu("runqueues", *cpu)?;
                let clock = program.value(queue, "rq", "clock")?;
                Ok::<_, crate::InspectError>((clock, program.value(queue, "rq", "clock_task")?))
            };
            let (clock, of_tasks) = read().unwrap_or_default();
            now = now.max(clock);
            if behind.len() <= *cpu {
                behind.resize(*cpu + 1, 0);
            }
            if let Some(behind) = behind.get_mut(*cpu) {
                *behind = clock.saturating_sub(of_tasks);
            }
        }
        Self { now, behind }
    }

    /// Nanoseconds since a sleeping task ran: `se.exec_start` is set whenever it does, also
    /// when it leaves its CPU (update_curr, kernel/sched/fair.c).
    pub fn since(&self, program: &Program, task: VirtAddr, cpu: Option<u64>) -> Option<u64> {
        let ran = program.value(task, "task_struct", "se.exec_start").ok()?;
        let behind = cpu.and_then(|cpu| self.behind.get(cpu as usize));
        let ran = ran.checked_add(behind.copied().unwrap_or(0))?;
        (ran > 0).then(|| self.now.saturating_sub(ran))
    }
}
