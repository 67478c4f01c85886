//! `bigiron info --run-queues`.

use bigiron_inspect::{Program, Queued, RunQueue, run_queues};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "run_queues";

/// Finds the run queues of all CPUs.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, run_queues(program), show)
}

fn show(found: &Vec<RunQueue>, page: &mut Page) {
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let columns = [
        "CPU", "current", "for s", "running", "load", "clock s", "behind s", "tick", "switches",
        "steal s", "at panic",
    ];
    page.table("run queues", &columns, &[0, 2, 3, 4, 5, 6, 8, 9], &rows);
    for queue in found {
        let classes = [
            ("deadline", &queue.deadline),
            ("real time", &queue.real_time),
            ("fair", &queue.fair),
        ];
        for (class, tasks) in classes {
            for task in tasks {
                let sleeps = if task.delayed { ", sleeps" } else { "" };
                let priority = task.priority;
                let text = format!("{class}, priority {priority}{sleeps}: {}", name(task));
                page.line(&format!("on CPU {}", queue.cpu), &text);
            }
        }
        for gap in &queue.gaps {
            page.line(
                &format!("on CPU {}", queue.cpu),
                &format!("not known: {gap}"),
            );
        }
    }
}

fn row(queue: &RunQueue) -> Vec<String> {
    let seconds = |nanoseconds: u64| format!("{:.6}", nanoseconds as f64 / 1e9);
    vec![
        queue.cpu.to_string(),
        queue.current.as_ref().map(name).unwrap_or_default(),
        queue.current_for.map(seconds).unwrap_or_default(),
        queue.running.to_string(),
        queue
            .fair_load
            .map(|load| load.to_string())
            .unwrap_or_default(),
        seconds(queue.clock),
        seconds(queue.behind),
        match queue.tick_stopped {
            Some(true) => "off".to_owned(),
            Some(false) => "on".to_owned(),
            None => String::new(),
        },
        queue.switches.to_string(),
        queue.steal.map(seconds).unwrap_or_default(),
        queue
            .at_panic
            .map(|state| state.word().to_owned())
            .unwrap_or_default(),
    ]
}

fn name(task: &Queued) -> String {
    format!("{} (PID {})", task.name, task.pid)
}
