//! Finds the kind of a report, and makes its signature.

use xxhash_rust::xxh3::xxh3_128;

use super::blame::{self, Blamed};
use super::pattern::{self, Captures};
use super::report::Report;
use super::rules::{self, Choice, Kind, RULES_VERSION, SYSTEM_CALLS, without_prefix};
use super::stack::{self, Frame};
use super::{Signature, title};

/// Maximum number of frames in a signature.
const MAX_FRAMES: usize = 16;
/// Lines after a heading within which the first call must come.
const FIRST_CALL: usize = 15;

/// Names the crash that a report tells of. The frames are those of the crashed task, for a
/// report that does not have them.
pub fn identify(report: &Report, frames: &[Frame<'_>]) -> Signature {
    let lines = report.own();
    for (index, line) in lines.iter().enumerate() {
        let kinds = report.beginning.kinds.iter();
        let mut fitting = kinds
            .filter_map(|kind| Some((kind, pattern::find(kind.line, line)?)))
            .peekable();
        if fitting.peek().is_none() {
            continue;
        }
        let whole = fitting.find_map(|(kind, mut captures)| {
            follow(kind, &lines[index + 1..], &mut captures)?;
            Some((kind, captures))
        });
        return match whole {
            Some((kind, captures)) => of_kind(report, kind, &lines[index..], captures, frames),
            None => of_line(report, true),
        };
    }
    of_line(report, false)
}

/// Searches the lines that must follow those of a kind.
fn follow<'t>(kind: &Kind, lines: &'t [String], captures: &mut Captures<'t>) -> Option<()> {
    let mut lines = lines.iter();
    for pattern in kind.then {
        captures.extend(lines.find_map(|line| pattern::find(pattern, line))?);
    }
    Some(())
}

/// The signature of a report whose kind has no rule: its first line.
fn of_line(report: &Report, corrupted: bool) -> Signature {
    let first = report.first();
    let start = first.find(report.beginning.word).unwrap_or(0);
    let title = title::normalize(&first[start..]);
    let corrupted = corrupted || title::has_stamp(&first[start..]);
    Signature {
        fingerprint: (!corrupted).then(|| fingerprint(&title, None)),
        title,
        alternative_titles: Vec::new(),
        frames: frames_of(&first_stack(report.own())),
        corrupted,
        rules_version: RULES_VERSION,
    }
}

fn of_kind(
    report: &Report,
    kind: &'static Kind,
    lines: &[String],
    mut captures: Captures<'_>,
    frames: &[Frame<'_>],
) -> Signature {
    let lacks_stack = lacks_stack(kind, report.all());
    let (blamed, origin, mut corrupted) = match kind.blame {
        rules::Blame::Line => (in_line(&captures), None, lacks_stack),
        rules::Blame::Stack(ways, choice) => {
            let mut found = blame::find(lines, ways, choice, kind.skip);
            let mut stacks = found.stacks.drain(..);
            match (stacks.next().flatten(), stacks.next().flatten()) {
                (None, _) if !frames.is_empty() => {
                    let blamed = blame::choose(blame::clean(frames, kind.skip), choice);
                    let corrupted = blamed.is_none();
                    (blamed, None, corrupted)
                }
                (blamed, origin) => (blamed, origin, lacks_stack || !found.is_clean),
            }
        }
    };
    captures.retain(|(name, _)| *name != "function");
    let named = |function: &str, template: &str| {
        let mut values = captures.clone();
        values.push(("function", function));
        values.extend(origin.as_ref().map(|origin| ("origin", origin.name)));
        title::fill(template, &values)
    };
    let function = blamed.as_ref().map_or(title::UNTOLD, |blamed| blamed.name);
    let raw = named(function, kind.title);
    let alternatives = full_names(blamed.as_ref()).into_iter().map(|function| {
        let all = std::iter::once(&kind.title).chain(kind.coarse);
        all.map(|template| named(function, template)).collect()
    });
    let coarse = kind.coarse.iter().map(|template| named(function, template));
    let all: Vec<String> = coarse
        .chain(alternatives.flat_map(|all: Vec<_>| all))
        .collect();
    corrupted |= kind.is_rest || title::has_stamp(&raw);
    let mut signature = Signature {
        title: title::normalize(&raw),
        alternative_titles: Vec::new(),
        fingerprint: None,
        frames: match &blamed {
            Some(blamed) => frames_of(&blamed.frames),
            None => frames_of(&first_stack(lines)),
        },
        corrupted,
        rules_version: RULES_VERSION,
    };
    if !corrupted {
        let template = title::normalize(&named("{function}", kind.title));
        signature.fingerprint = Some(fingerprint(&template, blamed.as_ref()));
    }
    for alternative in all {
        let alternative = title::normalize(&alternative);
        if alternative != signature.title && !signature.alternative_titles.contains(&alternative) {
            signature.alternative_titles.push(alternative);
        }
    }
    signature
}

/// The function that the lines of a kind name, if its title needs one.
fn in_line<'t>(captures: &Captures<'t>) -> Option<Blamed<'t>> {
    let (_, name) = captures.iter().rfind(|(name, _)| *name == "function")?;
    Some(Blamed {
        name: without_prefix(name),
        full_name: name,
        frames: vec![Frame { name, module: None }],
    })
}

/// The name of the blamed function as the stack has it, and with each prefix of a system call
/// taken off: kernels that name it otherwise in their reports have one of these.
fn full_names<'t>(blamed: Option<&Blamed<'t>>) -> Vec<&'t str> {
    let Some(full) = blamed.map(|blamed| blamed.full_name) else {
        return Vec::new();
    };
    let shorter = SYSTEM_CALLS
        .iter()
        .filter_map(|prefix| full.strip_prefix(prefix));
    std::iter::once(full).chain(shorter).collect()
}

/// Returns true if the first stack of a kind has a heading but no calls, or if there is none.
/// Later ones are of other tasks and CPUs.
fn lacks_stack(kind: &Kind, lines: &[String]) -> bool {
    if !kind.has_trace {
        return false;
    }
    let mut seen = Vec::new();
    let mut has_stack = false;
    for (index, line) in lines.iter().enumerate() {
        let Some(heading) = stack::heading(line).filter(|heading| !seen.contains(heading)) else {
            continue;
        };
        seen.push(heading);
        let after = lines[index + 1..].iter().take(FIRST_CALL);
        let mut after = after.take_while(|line| !stack::begins_stack(line));
        let has_calls = after.any(|line| {
            line.contains("(stack is not available)") || stack::calls(line).next().is_some()
        });
        has_stack |= has_calls;
        if !has_calls && !stack::may_be_empty(heading) {
            return true;
        }
    }
    !has_stack
}

/// The clean frames of the first call trace.
fn first_stack(lines: &[String]) -> Vec<Frame<'_>> {
    let way: &[rules::Way] = &[&[rules::Step::Heading, rules::Step::Calls]];
    let mut found = blame::find(lines, way, Choice::First, &[]);
    let first = found.stacks.drain(..).next().flatten();
    first.map_or_else(Vec::new, |blamed| blamed.frames)
}

/// Frames as text: `function` or `function [module]`.
pub fn frames_of(frames: &[Frame<'_>]) -> Vec<String> {
    let mut frames = frames.to_vec();
    // The interrupted function is also the first of some traces; and recursion says nothing.
    frames.dedup_by_key(|frame| frame.name);
    let text = |frame: &Frame<'_>| match frame.module {
        Some(module) => format!("{} [{module}]", without_prefix(frame.name)),
        None => without_prefix(frame.name).to_owned(),
    };
    frames.iter().take(MAX_FRAMES).map(text).collect()
}

/// The hash of the kind, the blamed function and its module.
pub fn fingerprint(kind: &str, blamed: Option<&Blamed<'_>>) -> String {
    let name = blamed.map_or("", |blamed| blamed.name);
    let module = blamed.and_then(|blamed| blamed.frames.first()?.module);
    let text = format!("{kind}\n{name}\n{}\n", module.unwrap_or_default());
    format!("{:032x}", xxh3_128(text.as_bytes()))
}
