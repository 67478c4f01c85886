//! The largest users of memory.

use bigiron_inspect::file_use::{self, FileUse};
use bigiron_inspect::{MemoryUse, PageMap, Program, Slabs, Tasks};
use serde::Serialize;

use crate::report::Part;

/// Maximum number of rows of each table.
const MAX_ROWS: usize = 200;

/// The users of memory.
#[derive(Debug, Serialize)]
pub(crate) struct Users {
    counters: Part<MemoryUse>,
    processes: Part<Processes>,
    slabs: Part<SlabRows>,
    files: Part<Files>,
}

#[derive(Debug, Serialize)]
struct Processes {
    rows: Vec<Process>,
    /// Number of all tasks, including threads and kernel threads.
    tasks: usize,
    gaps: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: i32,
    name: String,
    state: String,
    pages: u64,
}

#[derive(Debug, Serialize)]
struct SlabRows {
    rows: Vec<SlabRow>,
    caches: usize,
    bytes: u64,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SlabRow {
    name: String,
    object_size: u64,
    in_use: Option<u64>,
    objects: Option<u64>,
    bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Files {
    rows: Vec<FileUse>,
    /// Number of files counted.
    files: usize,
    without_file: u64,
    dropped: u64,
}

impl Users {
    pub(crate) fn of(program: &Program, map: Option<&PageMap>) -> Self {
        let files = map.map(|map| Files {
            rows: file_use::largest(program, &map.files, MAX_ROWS),
            files: map.files.len(),
            without_file: map.files.without_file,
            dropped: map.files.dropped,
        });
        Self {
            counters: MemoryUse::of(&program.renewed()).into(),
            processes: Tasks::of(&program.renewed()).map(processes).into(),
            slabs: Slabs::of(&program.renewed()).map(slabs).into(),
            files: files.ok_or("struct pages could not be read").into(),
        }
    }
}

fn processes(found: Tasks) -> Processes {
    let tasks = found.tasks.len();
    // All threads of a process share their memory.
    let leaders = found.tasks.into_iter().filter(|task| task.pid == task.tgid);
    let mut rows: Vec<Process> = leaders
        .filter_map(|task| {
            Some(Process {
                pid: task.pid,
                state: task.state_name,
                pages: task.rss_pages.filter(|pages| *pages > 0)?,
                name: task.name,
            })
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.pages), row.pid));
    rows.truncate(MAX_ROWS);
    Processes {
        rows,
        tasks,
        gaps: found.gaps,
    }
}

fn slabs(found: Slabs) -> SlabRows {
    let (caches, bytes) = (found.caches.len(), found.bytes());
    let rows = found.caches.into_iter().take(MAX_ROWS);
    let rows = rows.map(|cache| SlabRow {
        name: cache.name,
        object_size: cache.object_size,
        in_use: cache.in_use,
        objects: cache.objects,
        bytes: cache.bytes,
    });
    SlabRows {
        rows: rows.collect(),
        caches,
        bytes,
        warnings: found.warnings,
    }
}
