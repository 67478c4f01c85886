//! `bigiron info --workqueues`.

use bigiron_inspect::work_queues::{BusyWorker, Item, Pool};
use bigiron_inspect::{Program, WorkQueues};

use super::page::Page;
use super::topic::{Topic, seconds};

/// Name of the topic in JSON.
pub const NAME: &str = "workqueues";
/// Items of a list in text output; JSON has more.
const SHOWN: usize = 16;

/// Finds the work queues.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, WorkQueues::of(program), show)
}

fn show(found: &WorkQueues, page: &mut Page) {
    let pools = found.pools.iter();
    let rows: Vec<Vec<String>> = pools.clone().flat_map(busy).collect();
    let heading = format!(
        "work queues: {}, pools of workers: {}, busy workers: {}",
        found.queues.len(),
        found.pools.len(),
        rows.len()
    );
    let columns = [
        "pool", "PID", "worker", "seconds", "function", "queue", "behind",
    ];
    page.table(&heading, &columns, &[1, 3, 6], &rows);
    let rows: Vec<Vec<String>> = pools.flat_map(pending).collect();
    let columns = ["pool", "stalled s", "function", "queue", "item"];
    if !rows.is_empty() {
        page.table("items that wait for a worker", &columns, &[1], &rows);
    }
    let queues = found.queues.iter();
    let waiting = queues.flat_map(|queue| {
        let items = queue.waiting.iter().take(SHOWN);
        let more = queue.waiting_count.saturating_sub(SHOWN);
        items
            .map(|item| vec![queue.name.clone(), function(item), item.address.to_string()])
            .chain((more > 0).then(|| vec![queue.name.clone(), format!("{more} more")]))
    });
    let rows: Vec<Vec<String>> = waiting.collect();
    let heading = "items that start when others of their queue have ended";
    if !rows.is_empty() {
        page.table(heading, &["queue", "function", "item"], &[], &rows);
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

/// Names a pool as its workers do: `3:1` would be the second one of CPU 3, here `CPU 3, nice -20`.
fn pool_name(pool: &Pool) -> String {
    let place = match pool.cpu {
        Some(cpu) => format!("CPU {cpu}"),
        None => "any CPU".to_owned(),
    };
    let nice = pool.nice.filter(|nice| *nice != 0);
    let nice = nice.map(|nice| format!(", nice {nice}"));
    format!("{}: {place}{}", pool.id, nice.unwrap_or_default())
}

fn busy(pool: &Pool) -> impl Iterator<Item = Vec<String>> + '_ {
    let row = |worker: &BusyWorker| {
        vec![
            pool_name(pool),
            worker.task.pid.to_string(),
            worker.task.name.clone(),
            worker.busy_nsec.map(seconds).unwrap_or_default(),
            function(&worker.item),
            worker.item.queue.clone().unwrap_or_default(),
            worker.behind.to_string(),
        ]
    };
    pool.busy.iter().map(row)
}

fn pending(pool: &Pool) -> impl Iterator<Item = Vec<String>> + '_ {
    let stalled = pool.stalled_nsec.map(seconds).unwrap_or_default();
    let more = pool.pending_count.saturating_sub(SHOWN);
    let more = (more > 0).then(|| vec![pool_name(pool), String::new(), format!("{more} more")]);
    let row = move |item: &Item| {
        vec![
            pool_name(pool),
            stalled.clone(),
            function(item),
            item.queue.clone().unwrap_or_default(),
            item.address.to_string(),
        ]
    };
    pool.pending.iter().take(SHOWN).map(row).chain(more)
}

fn function(item: &Item) -> String {
    item.function.clone().unwrap_or_default()
}
