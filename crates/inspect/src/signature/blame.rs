//! Finds the function to blame in the stacks of a report.

use super::pattern;
use super::rules::{
    CALL_ON_OTHER_CPUS, Choice, Step, WAIT, WAIT_FOR_ALL, Way, begins_thread, hands_out_work,
    is_never_blamed, without_prefix,
};
use super::stack::{self, Frame};

/// Maximum number of frames of a stack that count. A recursion until the stack overflows has
/// several hundred.
const MAX_FRAMES: usize = 1024;

/// The blamed function of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed<'t> {
    /// Its name for people: of a system call, without prefix.
    pub name: &'t str,
    /// Its name in the stack.
    pub full_name: &'t str,
    /// The frames from it on, outwards, without those that are never to blame.
    pub frames: Vec<Frame<'t>>,
}

/// What the ways through a report lead to.
#[derive(Debug, Default)]
pub struct Blame<'t> {
    /// For each stack, the blamed function, if it has one.
    pub stacks: Vec<Option<Blamed<'t>>>,
    /// True if each stack has one, and no other report is mixed into them.
    pub is_clean: bool,
}

/// Walks the first of the ways that leads to a function in each stack, else the last.
pub fn find<'t>(
    lines: &'t [String],
    ways: &[Way],
    choice: Choice,
    skip: &[&'static str],
) -> Blame<'t> {
    let mut found = Blame::default();
    for way in ways {
        found = walk(lines, way, choice, skip);
        if found.is_clean {
            break;
        }
    }
    found
}

fn walk<'t>(lines: &'t [String], way: Way, choice: Choice, skip: &[&'static str]) -> Blame<'t> {
    let mut walk = Walk {
        frames: Vec::new(),
        before: None,
        skip,
    };
    let mut lines = lines.iter();
    let mut stacks = Vec::new();
    let (mut is_clean, mut has_calls) = (true, false);
    let mut steps = way.iter();
    while let Some(step) = steps.next() {
        let is_calls = matches!(step, Step::Calls);
        if is_calls && has_calls {
            stacks.push(walk.choose(choice));
        }
        has_calls |= is_calls;
        for line in lines.by_ref() {
            if is_injected(line) {
                is_clean = false;
                break;
            }
            if !is_calls {
                if walk.takes(step, line) {
                    break;
                }
                if matches!(step, Step::FirstInstruction) && stack::begins_stack(line) {
                    return Blame::default();
                }
                continue;
            }
            if stack::begins_stack(line) {
                break;
            }
            // A step that comes after the calls ends them.
            if steps
                .as_slice()
                .first()
                .is_some_and(|next| walk.takes(next, line))
            {
                steps.next();
                break;
            }
            walk.extend(stack::calls(line));
        }
    }
    stacks.push(walk.choose(choice));
    is_clean &= stacks.iter().all(Option::is_some);
    Blame { stacks, is_clean }
}

/// The clean frames of a walk.
struct Walk<'t, 's> {
    frames: Vec<Frame<'t>>,
    /// The frame before the next one, if it was left out.
    before: Option<Frame<'t>>,
    skip: &'s [&'static str],
}

impl<'t> Walk<'t, '_> {
    /// Takes the step if the line is the one that it leads to.
    fn takes(&mut self, step: &Step, line: &'t str) -> bool {
        let found = match step {
            Step::Calls => return false,
            Step::Heading => return stack::begins_trace(line),
            Step::Instruction | Step::FirstInstruction => stack::instruction(line),
            Step::Trap => stack::instruction(line).or_else(|| trap(line)),
            Step::Line(pattern) => pattern::find(pattern, line).map(|captures| {
                let name = captures.iter().find(|(name, _)| *name == "function");
                name.map(|(_, name)| {
                    // Its module follows.
                    let at = name.as_ptr() as usize - line.as_ptr() as usize;
                    stack::function(&line[at..]).unwrap_or(Frame { name, module: None })
                })
            }),
        };
        self.extend(found.into_iter().flatten());
        found.is_some()
    }

    fn extend(&mut self, frames: impl Iterator<Item = Frame<'t>>) {
        for frame in frames {
            if is_never_blamed(frame.name, self.skip) {
                self.before = Some(frame);
                continue;
            }
            // What a thread runs tells more than that it is a thread.
            let before = self.before.take();
            let run = before.filter(|_| begins_thread(frame.name));
            for frame in run.into_iter().chain([frame]) {
                if self.frames.len() < MAX_FRAMES {
                    self.frames.push(frame);
                }
            }
        }
    }

    /// Chooses the function of the stack, and begins the next.
    fn choose(&mut self, choice: Choice) -> Option<Blamed<'t>> {
        self.before = None;
        choose(std::mem::take(&mut self.frames), choice)
    }
}

/// Returns the frames that may be to blame.
pub fn clean<'t>(frames: &[Frame<'t>], skip: &[&'static str]) -> Vec<Frame<'t>> {
    let mut walk = Walk {
        frames: Vec::new(),
        before: None,
        skip,
    };
    walk.extend(frames.iter().copied());
    walk.frames
}

/// Chooses the function to blame from the clean frames of a stack.
pub fn choose(mut frames: Vec<Frame<'_>>, choice: Choice) -> Option<Blamed<'_>> {
    let names: Vec<&str> = frames
        .iter()
        .map(|frame| without_prefix(frame.name))
        .collect();
    let (name, index) = match choice {
        Choice::First => (*names.first()?, 0),
        Choice::HandedOut => handed_out(&names)?,
        Choice::Waiting => waiting(&names)?,
    };
    let full_name = frames.get(index)?.name;
    Some(Blamed {
        name,
        full_name,
        frames: frames.split_off(index),
    })
}

/// Returns the function that one called that hands work out, and its index.
fn handed_out<'t>(names: &[&'t str]) -> Option<(&'t str, usize)> {
    let index = names.iter().position(|name| hands_out_work(name))?;
    if names[index].contains(CALL_ON_OTHER_CPUS) {
        return Some((CALL_ON_OTHER_CPUS, index));
    }
    let called = index.saturating_sub(1);
    Some((names[called], called))
}

/// Returns the function of a task that hangs, and its index.
fn waiting<'t>(names: &[&'t str]) -> Option<(&'t str, usize)> {
    for (index, name) in names.iter().enumerate() {
        let known = WAIT_FOR_ALL
            .iter()
            .find(|(known, _)| pattern::is_match(known, name));
        if let Some((_, replacement)) = known {
            return Some((replacement.unwrap_or(name), index));
        }
    }
    let waits = |name: &str| WAIT.iter().any(|known| pattern::is_match(known, name));
    let mut index = names.iter().position(|name| !waits(name))?;
    while index > 0 && begins_thread(names[index]) {
        index -= 1;
    }
    Some((names[index], index))
}

/// Returns the interrupted function of ppc64: `--- interrupt: 700 at f+0x1/0x2`.
fn trap(line: &str) -> Option<Option<Frame<'_>>> {
    let (_, rest) = line.split_once("--- interrupt: ")?;
    let (number, place) = rest.split_once(" at ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let frame = is_number.then(|| stack::function(place))??;
    Some(Some(frame))
}

/// Returns true for a call in a stack of fault injection (lib/fault-inject.c), which comes in
/// between.
fn is_injected(line: &str) -> bool {
    stack::calls(line).any(|frame| ["should_fail", "should_failslab"].contains(&frame.name))
}
