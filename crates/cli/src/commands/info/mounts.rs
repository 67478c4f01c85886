//! `bigiron info --mounts`.

use bigiron_inspect::mounts::{Mount, Namespace};
use bigiron_inspect::{Mounts, Program};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "mounts";

/// Finds the mounts.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, Mounts::of(program), show)
}

/// Shows the mounts of the first process's namespace; of each other one, only how many there are:
/// containers have many, most of which are alike.
fn show(found: &Mounts, page: &mut Page) {
    if let Some(first) = found.namespaces.first() {
        let rows: Vec<Vec<String>> = first.mounts.iter().map(row).collect();
        let heading = format!("mounts: {}", rows.len());
        let columns = ["on", "device", "type", "options", "state"];
        page.table(&heading, &columns, &[], &rows);
    }
    for other in found.namespaces.iter().skip(1) {
        page.line("", &of_other(other));
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn row(mount: &Mount) -> Vec<String> {
    vec![
        mount.path.clone(),
        match &mount.root {
            Some(root) => format!("{}[{root}]", mount.device),
            None => mount.device.clone(),
        },
        mount.filesystem.clone(),
        mount.options.join(","),
        state(mount),
    ]
}

fn state(mount: &Mount) -> String {
    let frozen = mount.frozen.map(|level| format!("frozen: {level}"));
    let shut_down = (mount.shut_down == Some(true)).then(|| "shut down".to_owned());
    let states: Vec<String> = frozen.into_iter().chain(shut_down).collect();
    states.join(", ")
}

fn of_other(namespace: &Namespace) -> String {
    let with_state = namespace
        .mounts
        .iter()
        .filter(|mount| !state(mount).is_empty());
    let with_state: Vec<String> = with_state
        .map(|mount| format!("; {} is {}", mount.path, state(mount)))
        .collect();
    format!(
        "mount namespace {} of {} and {} more tasks: {} mounts (--json){}",
        namespace.number,
        namespace.task,
        namespace.tasks.saturating_sub(1),
        namespace.mounts.len(),
        with_state.concat()
    )
}
