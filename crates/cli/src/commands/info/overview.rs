//! The overview of a dump as text: what was dumped, of which kernel, and why it stopped.

use std::fmt::Write as _;

use bigiron_inspect::{Event, EventKind, Overview};

use super::log;
use super::page::Page;
use crate::size;

/// Lines of the call trace in text output; JSON has all.
const SHOWN_TRACE: usize = 20;

/// Formats the overview: labels on the left, values on the right.
pub fn page(overview: &Overview) -> Page {
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
    let codecs = match dump.codecs.as_slice() {
        [] => "not compressed".to_owned(),
        codecs => codecs.join(" and "),
    };
    page.line(
        "dump",
        &format!(
            "{}, {codecs}, dump level {}, {state}",
            dump.format, dump.dump_level
        ),
    );
    if let Some(damage) = &dump.damage {
        page.line("", damage);
    }
    if dump.live {
        page.line("", "the kernel was running while it was dumped");
    }
    if !dump.erased.is_empty() {
        page.line("erased", &format!("{} data items", dump.erased.len()));
    }
    page.line(
        "kernel",
        &format!("{} {} {}", kernel.system, kernel.release, kernel.machine),
    );
    page.line("", &kernel.version);
    page.optional("build id", kernel.build_id.as_deref());
    page.line("host", &kernel.host);
    if let Some(signature) = &overview.signature {
        log::show(signature, &mut page);
    }
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
    page
}

/// Formats `2026-11-21 16:05:12 UTC, 81.2 s after boot`.
fn when(overview: &Overview) -> Option<String> {
    let crash = overview.crash.as_ref();
    let event = crash.and_then(|crash| crash.panic.as_ref().or(crash.with_trace()));
    let nanoseconds = event.and_then(|event| event.ts_nsec);
    let since_start = nanoseconds.map(|ts| format!("{:.1} s after boot", ts as f64 / 1e9));
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
            page.line("why", "the log has no panic and no fault");
            return;
        }
        None => page.line("panic", "none in the log; its last event:"),
    }
    if let Some(cause) = &crash.cause {
        page.line(label(cause.kind), &cause.message);
    }
    let Some(event) = crash.with_trace() else {
        return;
    };
    page.optional("task", task(event).as_deref());
    page.optional("at", event.instruction.as_deref());
    // A question mark denotes an address found on the stack but not in the call chain.
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

/// Formats `sh (PID 87) on CPU 1`, as far as known.
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
