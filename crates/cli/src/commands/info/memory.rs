//! `bigiron info --memory` and `--pages`.

use std::collections::BTreeMap;

use bigiron_inspect::file_use::{self, FileUse};
use bigiron_inspect::{InspectError, MemoryUse, PageMap, Program, Slabs, Tasks, page_class};
use bigiron_kernel::IoMethod;
use serde::{Serialize, Serializer};

use super::page::Page;
use super::topic::Topic;
use crate::size;

/// JSON names of the topics.
pub const MEMORY: &str = "memory_use";
pub const PAGES: &str = "page_classes";

/// Rows of each table in text output; JSON has all slab caches.
const SHOWN: usize = 20;
/// Maximum number of files and tasks in JSON.
const MOST: usize = 1000;

/// Memory use by owner, by the kernel's own counters.
#[derive(Serialize)]
struct Memory {
    #[serde(flatten)]
    used: MemoryUse,
    #[serde(serialize_with = "known")]
    slabs: Result<Slabs, String>,
    #[serde(serialize_with = "known")]
    tasks: Result<Vec<TaskUse>, String>,
}

/// Memory of a process.
#[derive(Serialize)]
struct TaskUse {
    pid: i32,
    name: String,
    rss_pages: u64,
}

/// Memory use by page.
#[derive(Serialize)]
struct Pages {
    page_size: u64,
    ram: u64,
    in_dump: u64,
    /// Page frames by class.
    classes: BTreeMap<&'static str, u64>,
    files: Vec<FileUse>,
    /// Page cache pages without a file.
    without_file: u64,
    warnings: Vec<String>,
}

/// Serialises a value, or the reason why it is unknown.
fn known<T: Serialize, S: Serializer>(part: &Result<T, String>, to: S) -> Result<S::Ok, S::Error> {
    match part {
        Ok(known) => known.serialize(to),
        Err(reason) => serde_json::json!({ "not_known": reason }).serialize(to),
    }
}

/// Finds memory use by owner.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    let found = MemoryUse::of(program).map(|used| Memory {
        used,
        slabs: Slabs::of(program).map_err(|error| error.to_string()),
        tasks: tasks(program).map_err(|error| error.to_string()),
    });
    Topic::of(MEMORY, found, show)
}

/// Returns processes by resident memory, largest first.
fn tasks(program: &Program) -> Result<Vec<TaskUse>, InspectError> {
    let tasks = Tasks::of(program)?.tasks.into_iter();
    // All threads of a process share their memory.
    let mut found: Vec<TaskUse> = tasks
        .filter(|task| task.pid == task.tgid)
        .filter_map(|task| {
            Some(TaskUse {
                pid: task.pid,
                rss_pages: task.rss_pages.filter(|pages| *pages > 0)?,
                name: task.name,
            })
        })
        .collect();
    found.sort_by_key(|task| (std::cmp::Reverse(task.rss_pages), task.pid));
    found.truncate(MOST);
    Ok(found)
}

fn show(found: &Memory, page: &mut Page) {
    let page_size = found.used.page_size;
    let of_pages = |pages: u64| size::format(pages.saturating_mul(page_size));
    let heading = match found.used.total {
        Some(total) => format!("memory: {} (* included in another row)", of_pages(total)),
        None => "memory (* included in another row)".into(),
    };
    let rows = found.used.users.iter().map(|user| {
        let mark = if user.counted_elsewhere { "*" } else { "" };
        vec![
            size::format(user.bytes),
            mark.to_owned(),
            user.name.to_owned(),
        ]
    });
    page.table(
        &heading,
        &["bytes", "", "use"],
        &[0],
        &rows.collect::<Vec<_>>(),
    );
    for pool in &found.used.huge {
        let (size, total, free) = (size::format(pool.size), pool.total, pool.free);
        page.line(
            "",
            &format!("huge pages of {size}: {total}, {free} of them free"),
        );
    }
    show_slabs(&found.slabs, page);
    match &found.tasks {
        Ok(tasks) => {
            let rows = tasks.iter().take(SHOWN).map(|task| {
                let (pid, bytes) = (task.pid.to_string(), of_pages(task.rss_pages));
                vec![bytes, pid, task.name.clone()]
            });
            let heading = "processes with the most memory";
            page.table(
                heading,
                &["bytes", "PID", "name"],
                &[0, 1],
                &rows.collect::<Vec<_>>(),
            );
        }
        Err(error) => page.line("", &format!("processes: not known: {error}")),
    }
    warnings(&found.used.warnings, page);
}

fn show_slabs(slabs: &Result<Slabs, String>, page: &mut Page) {
    let slabs = match slabs {
        Ok(slabs) => slabs,
        Err(error) => return page.line("", &format!("slab caches: not known: {error}")),
    };
    let number = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
    let rows = slabs.caches.iter().take(SHOWN).map(|cache| {
        vec![
            cache.bytes.map(size::format).unwrap_or_default(),
            number(cache.in_use),
            number(cache.objects),
            number(cache.slabs),
            cache.object_size.to_string(),
            cache.name.clone(),
        ]
    });
    let (bytes, count) = (size::format(slabs.bytes()), slabs.caches.len());
    let heading = format!("slab caches: {count}, {bytes}");
    let columns = ["bytes", "in use", "objects", "slabs", "size", "name"];
    page.table(
        &heading,
        &columns,
        &[0, 1, 2, 3, 4],
        &rows.collect::<Vec<_>>(),
    );
    let more = slabs.caches.len().saturating_sub(SHOWN);
    if more > 0 {
        page.line("", &format!("and {more} smaller ones (--json)"));
    }
    warnings(&slabs.warnings, page);
}

/// Finds memory use by page.
pub fn find_pages(program: &Program) -> anyhow::Result<Topic> {
    let found = page_class::kind_bits(program)
        .and_then(|bits| PageMap::of(program.kernel(), bits, IoMethod::Auto));
    let found = found.map(|map| {
        let names = page_class::ALL.iter().map(|class| class.name);
        Pages {
            page_size: map.page_size,
            ram: map.total.ram,
            in_dump: map.total.present,
            classes: names.zip(map.total.counts).collect(),
            files: file_use::largest(program, &map.files, MOST),
            without_file: map.files.without_file,
            warnings: map.warnings,
        }
    });
    Topic::of(PAGES, found, show_pages)
}

fn show_pages(found: &Pages, page: &mut Page) {
    let of_pages = |pages: u64| size::format(pages.saturating_mul(found.page_size));
    let classes = page_class::ALL.iter().filter_map(|class| {
        let pages = found.classes.get(class.name).copied()?;
        (pages > 0).then_some((pages, class.title))
    });
    let rows = classes.map(|(pages, title)| vec![of_pages(pages), pages.to_string(), title.into()]);
    let heading = format!("pages by use: {} of RAM", of_pages(found.ram));
    let columns = ["bytes", "pages", "use"];
    page.table(&heading, &columns, &[0, 1], &rows.collect::<Vec<_>>());
    let rows = found.files.iter().take(SHOWN).map(|used| {
        let file = &used.file;
        let name = file
            .path
            .as_deref()
            .or(file.not_known.as_deref())
            .unwrap_or("?");
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let inode = file
            .inode
            .map(|inode| inode.to_string())
            .unwrap_or_default();
        let place = text(&file.device);
        vec![
            of_pages(used.pages),
            text(&file.filesystem),
            place,
            inode,
            name.to_owned(),
        ]
    });
    let columns = ["bytes", "type", "on", "inode", "path in its file system"];
    page.table(
        "files with the most page cache",
        &columns,
        &[0, 3],
        &rows.collect::<Vec<_>>(),
    );
    warnings(&found.warnings, page);
}

fn warnings(warnings: &[String], page: &mut Page) {
    for warning in warnings {
        page.line("", &format!("not known: {warning}"));
    }
}
