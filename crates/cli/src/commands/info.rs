//! `bigiron info`: a dump at a glance.

use std::fmt::Write as _;
use std::path::PathBuf;

use bigiron_inspect::{Event, EventKind, Overview};
use clap::Args;

use super::source;
use crate::arguments::SourceArguments;
use crate::size;
use crate::tell::{print, tell};

/// Lines of the call trace that people see; programs see all.
const SHOWN_TRACE: usize = 20;

/// `bigiron info`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct InfoArguments {
    /// The dump, in any format; all parts of a split or striped one, or - for standard input
    #[arg(required = true)]
    dump: Vec<PathBuf>,
    /// Print it as JSON, with the whole call trace and the notes
    #[arg(long)]
    json: bool,
    /// How the source is read.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
No debug symbols are needed: the kernel's own words in its log say why it stopped.

Examples:
  bigiron info vmcore
  bigiron info --json vmcore | jq -r .crash.panic.message";

/// Looks at the dump and prints what is known of it.
pub fn run(arguments: &InfoArguments) -> anyhow::Result<()> {
    source::with_kernel(&arguments.dump, &arguments.source, |kernel| {
        let overview = Overview::of(kernel);
        if arguments.json {
            return print(&(serde_json::to_string_pretty(&overview)? + "\n"));
        }
        for warning in &overview.warnings {
            tell!("bigiron: warning: {warning}");
        }
        print(&page(&overview))
    })
}

/// A page for people: what it is on the left, the value beside it.
fn page(overview: &Overview) -> String {
    let mut page = Page(String::new());
    let Overview {
        dump,
        kernel,
        memory,
        ..
    } = overview;
    let state = if dump.complete {
        "complete"
    } else {
        "INCOMPLETE"
    };
    page.line(
        "dump",
        &format!("{}, dump level {}, {state}", dump.format, dump.dump_level),
    );
    if let Some(damage) = &dump.damage {
        page.line("", damage);
    }
    if dump.live {
        page.line("", "the kernel ran on while it was dumped");
    }
    if !dump.erased.is_empty() {
        page.line("erased", &format!("{} pieces of data", dump.erased.len()));
    }
    page.line(
        "kernel",
        &format!("{} {} {}", kernel.system, kernel.release, kernel.machine),
    );
    page.line("", &kernel.version);
    page.optional("build id", kernel.build_id.as_deref());
    page.line("host", &kernel.host);
    page.optional("crashed", when(overview).as_deref());
    why(&mut page, overview);
    page.optional(
        "CPUs",
        overview.cpus.map(|cpus| cpus.to_string()).as_deref(),
    );
    let ram = match (memory.pages, memory.pages_in_dump) {
        (Some(ram), Some(present)) => format!(
            "{}, of which {} are in the dump",
            size::format(ram.saturating_mul(memory.page_size)),
            size::format(present.saturating_mul(memory.page_size)),
        ),
        _ => format!("up to address {:#x}", memory.end),
    };
    page.line("memory", &ram);
    page.0
}

/// `2026-11-21 16:05:12 UTC, 81.2 s after the start`.
fn when(overview: &Overview) -> Option<String> {
    let crash = overview.crash.as_ref();
    let event = crash.and_then(|crash| crash.panic.as_ref().or(crash.with_trace()));
    let nanoseconds = event.and_then(|event| event.ts_nsec);
    let since_start = nanoseconds.map(|ts| format!("{:.1} s after the start", ts as f64 / 1e9));
    let time = overview
        .crash_time
        .and_then(|time| jiff::Timestamp::from_second(time).ok());
    let time = time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    let parts: Vec<String> = time.into_iter().chain(since_start).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn why(page: &mut Page, overview: &Overview) {
    let Some(crash) = &overview.crash else {
        page.line("why", "not known: the dump has no readable log");
        return;
    };
    match &crash.panic {
        Some(panic) => page.line("panic", &panic.message),
        None if crash.cause.is_none() => {
            page.line("why", "the log tells of no panic and no fault");
            return;
        }
        None => page.line("panic", "none in the log; the last trouble it tells of:"),
    }
    if let Some(cause) = &crash.cause {
        page.line(label(cause.kind), &cause.message);
    }
    let Some(event) = crash.with_trace() else {
        return;
    };
    page.optional("task", task(event).as_deref());
    page.optional("at", event.instruction.as_deref());
    // With a question mark: found on the stack, but not in the chain of calls.
    let sure = event.trace.iter().filter(|call| !call.starts_with("? "));
    for (index, call) in sure.clone().take(SHOWN_TRACE).enumerate() {
        page.line(if index == 0 { "trace" } else { "" }, call);
    }
    let more = sure.count().saturating_sub(SHOWN_TRACE);
    if more > 0 {
        page.line("", &format!("and {more} more (--json)"));
    }
}

fn label(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Panic => "panic",
        EventKind::Oops => "fault",
        EventKind::Lockup => "lockup",
        EventKind::HungTask => "hung task",
        EventKind::Stall => "stall",
        EventKind::Hardware => "hardware",
        EventKind::Request => "request",
    }
}

/// `sh (PID 87) on CPU 1`, as far as it is known.
fn task(event: &Event) -> Option<String> {
    let mut text = event.command.clone().unwrap_or_default();
    if let Some(pid) = event.pid {
        let _ = write!(text, " (PID {pid})");
    }
    if let Some(cpu) = event.cpu {
        let _ = write!(text, " on CPU {cpu}");
    }
    (!text.is_empty()).then(|| text.trim_start().to_owned())
}

struct Page(String);

impl Page {
    /// Control characters come from the dump and must not reach a terminal.
    fn line(&mut self, label: &str, value: &str) {
        let value: String = value
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        let _ = writeln!(self.0, "{}", format!("{label:<10}{value}").trim_end());
    }

    fn optional(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(label, value);
        }
    }
}
