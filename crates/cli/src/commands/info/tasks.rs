//! `bigiron info --tasks`.

use bigiron_inspect::{Program, Task, Tasks};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "tasks";

/// Finds all tasks.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, Tasks::of(program), show)
}

fn show(found: &Tasks, page: &mut Page) {
    let rows: Vec<Vec<String>> = found.tasks.iter().map(row).collect();
    let heading = format!("tasks: {} (> running, [] kernel threads)", rows.len());
    let columns = [
        "",
        "PID",
        "process",
        "parent",
        "CPU",
        "state",
        "pages",
        "task_struct",
        "name",
    ];
    page.table(&heading, &columns, &[1, 2, 3, 4, 6], &rows);
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn row(task: &Task) -> Vec<String> {
    let number = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
    vec![
        if task.on_cpu { ">" } else { "" }.to_owned(),
        task.pid.to_string(),
        task.tgid.to_string(),
        task.parent.map(|pid| pid.to_string()).unwrap_or_default(),
        number(task.cpu),
        format!("{} {}", task.state, task.state_name),
        number(task.rss_pages),
        task.address.to_string(),
        match task.kernel_thread {
            true => format!("[{}]", task.name),
            false => task.name.clone(),
        },
    ]
}
