//! The processes that use file systems: by their directories, their programs and their open files.
//!
//! Relies on `task_struct.fs` (`root`, `pwd`), `mm_struct.exe_file`, `task_struct.files`
//! (`files_struct.fdt`, `fdtable.fd` and `max_fds`), and on `file.f_path` and `vfsmount.mnt_sb`.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use bigiron_helpers::Stop;

use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::{Task, Tasks};
use crate::waits::TaskName;

/// Maximum number of open files of a process that are looked at.
const MAX_FILES: u64 = 1024;
/// Users of a file system that are kept.
const MAX_USERS: usize = 1024;

/// A process that uses a file system.
pub struct User {
    /// The process.
    pub task: TaskName,
    /// What it has there: `its working directory`.
    pub what: &'static str,
}

/// Finds the users of the file systems with these super blocks; each process once.
pub fn users(
    program: &Program,
    tasks: &Tasks,
    of: &HashSet<VirtAddr>,
    stop: &Stop,
) -> HashMap<VirtAddr, Vec<User>> {
    let mut found: HashMap<VirtAddr, Vec<User>> = HashMap::new();
    let processes = tasks.tasks.iter();
    for task in processes.filter(|task| task.pid == task.tgid && !task.kernel_thread) {
        if stop.is_set() {
            break;
        }
        let mut seen = HashSet::new();
        for (file_system, what) in uses(program, task) {
            if of.contains(&file_system) && seen.insert(file_system) {
                let users = found.entry(file_system).or_default();
                if users.len() < MAX_USERS {
                    let task = TaskName::of(task);
                    users.push(User { task, what });
                }
            }
        }
    }
    found
}

/// The super blocks that a process uses, and by what. What cannot be read is left out.
fn uses(program: &Program, task: &Task) -> Vec<(VirtAddr, &'static str)> {
    let mut found = Vec::new();
    let mut add = |what, read: Result<Vec<VirtAddr>, InspectError>| {
        found.extend(read.unwrap_or_default().into_iter().map(|at| (at, what)));
    };
    add("its working directory", directory(program, task, "pwd.mnt"));
    add("its root", directory(program, task, "root.mnt"));
    add("its program", executable(program, task));
    add("an open file", files(program, task));
    found
}

fn directory(program: &Program, task: &Task, path: &str) -> Result<Vec<VirtAddr>, InspectError> {
    let own = program.pointer(task.address, "task_struct", "fs")?;
    match own {
        VirtAddr(0) => Ok(Vec::new()),
        own => Ok(vec![of_mount(
            program,
            program.pointer(own, "fs_struct", path)?,
        )?]),
    }
}

fn executable(program: &Program, task: &Task) -> Result<Vec<VirtAddr>, InspectError> {
    let memory = program.pointer(task.address, "task_struct", "mm")?;
    let file = match memory {
        VirtAddr(0) => memory,
        memory => program.pointer(memory, "mm_struct", "exe_file")?,
    };
    match file {
        VirtAddr(0) => Ok(Vec::new()),
        file => Ok(vec![of_file(program, file)?]),
    }
}

fn files(program: &Program, task: &Task) -> Result<Vec<VirtAddr>, InspectError> {
    let files = program.pointer(task.address, "task_struct", "files")?;
    if files.0 == 0 {
        return Ok(Vec::new());
    }
    let table = program.pointer(files, "files_struct", "fdt")?;
    let count = program.value(table, "fdtable", "max_fds")?.min(MAX_FILES);
    let first = program.pointer(table, "fdtable", "fd")?;
    let mut found = Vec::new();
    for number in 0..count {
        let file = program.number(program.plus(first, 8 * number)?, 8)?;
        if file != 0
            && let Ok(file_system) = of_file(program, VirtAddr(file))
        {
            found.push(file_system);
        }
    }
    Ok(found)
}

fn of_file(program: &Program, file: VirtAddr) -> Result<VirtAddr, InspectError> {
    of_mount(program, program.pointer(file, "file", "f_path.mnt")?)
}

fn of_mount(program: &Program, mount: VirtAddr) -> Result<VirtAddr, InspectError> {
    program.pointer(mount, "vfsmount", "mnt_sb")
}
