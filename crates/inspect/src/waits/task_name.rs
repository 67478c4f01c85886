//! The name of a task.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::json::hexadecimal;
use crate::tasks::Task;

/// A task, as findings name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskName {
    /// PID.
    pub pid: i32,
    /// Name.
    pub name: String,
    /// State letter.
    pub state: char,
    /// Address of its task_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

impl TaskName {
    /// The name of a task.
    pub fn of(task: &Task) -> Self {
        Self {
            pid: task.pid,
            name: task.name.clone(),
            state: task.state,
            address: task.address,
        }
    }
}

/// Formats as `sh (PID 87)`.
impl std::fmt::Display for TaskName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (PID {})", self.name, self.pid)
    }
}
