//! `bigiron triage show --bucket`: one bucket in full.

use std::path::PathBuf;

use bigiron_fleet::{Bucket, Row, read_table};
use serde::Serialize;

use super::dates::day;
use crate::commands::info::page::Page;
use crate::size;
use crate::tell::print;

/// Members of a bucket that are shown.
const MAX_MEMBERS: usize = 10_000;

/// A bucket with its members.
#[derive(Serialize)]
struct Whole<'b> {
    /// Version of this structure.
    version: u32,
    #[serde(flatten)]
    bucket: &'b Bucket,
    /// Its crashes, the latest first.
    members: Vec<Member>,
}

/// A crash.
#[derive(Serialize)]
struct Member {
    time: i64,
    host: Option<String>,
    kernel_release: Option<String>,
    machine: Option<String>,
    path: String,
}

/// Prints a bucket of the table in `files`.
pub fn run(bucket: &Bucket, files: &[PathBuf], json: bool) -> anyhow::Result<()> {
    let mut members = Vec::new();
    for file in files {
        read_table(file, &mut |row| {
            if bucket.has(&row) && members.len() < MAX_MEMBERS {
                members.push(Member::of(row));
            }
        })?;
    }
    members.sort_by(|a: &Member, b| b.time.cmp(&a.time).then_with(|| a.path.cmp(&b.path)));
    let whole = Whole {
        version: 1,
        bucket,
        members,
    };
    print(&match json {
        true => serde_json::to_string_pretty(&whole)? + "\n",
        false => text(&whole),
    })
}

impl Member {
    fn of(row: Row) -> Self {
        Self {
            time: row.time(),
            host: row.host,
            kernel_release: row.kernel_release,
            machine: row.machine,
            path: row.path,
        }
    }
}

fn text(whole: &Whole<'_>) -> String {
    let Whole {
        bucket, members, ..
    } = whole;
    let mut page = Page(String::new());
    let seen = &bucket.seen;
    page.line("crash", &bucket.title);
    if bucket.corrupted {
        page.line("", "the reports are corrupted: the title may be wrong");
    }
    for title in bucket.titles.iter().skip(1) {
        page.line("", &format!("or: {title}"));
    }
    page.line("signature", &bucket.id);
    let machines = size::group(seen.machines() as u64);
    let crashes = size::group(seen.crashes);
    page.line("crashes", &format!("{crashes} on {machines} machines"));
    page.line(
        "seen",
        &format!("{} to {}", day(seen.first), day(seen.last)),
    );
    for (index, kernel) in seen.kernels().iter().enumerate() {
        let label = if index == 0 { "kernels" } else { "" };
        page.line(
            label,
            &format!("{} ({})", kernel.release, size::group(kernel.crashes)),
        );
    }
    for (index, frame) in bucket.frames.iter().enumerate() {
        page.line(if index == 0 { "trace" } else { "" }, frame);
    }
    for (index, similar) in bucket.similar.iter().enumerate() {
        let label = if index == 0 { "similar" } else { "" };
        let id: String = similar.id.chars().take(8).collect();
        page.line(
            label,
            &format!("{:.2} {id} {}", similar.score, similar.title),
        );
    }
    let rows = members.iter().map(|member| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            day(Some(member.time)),
            text(&member.host),
            text(&member.kernel_release),
            text(&member.machine),
            member.path.clone(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let columns = ["day", "host", "kernel", "machine", "path"];
    page.table("Members, the latest first", &columns, &[], &rows);
    let left = seen.crashes.saturating_sub(rows.len() as u64);
    if left > 0 {
        page.heading(&format!("{left} more"));
    }
    page.0
}
