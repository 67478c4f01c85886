//! The rules: how each kind of report begins, what its title is, and who is to blame.

mod functions;
mod kinds;
mod names;
mod ways;

pub use functions::{is_never_blamed, is_of_crash_path};
pub use kinds::BEGINNINGS;
pub use names::{
    CALL_ON_OTHER_CPUS, SYSTEM_CALLS, WAIT, WAIT_FOR_ALL, begins_thread, hands_out_work,
    without_prefix,
};

/// Version of the rules: a signature made by other rules may name the same crash otherwise.
pub const RULES_VERSION: u32 = 2;

/// The beginning of reports.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// The text by which a line begins a report.
    pub word: &'static str,
    /// Patterns of lines with that text that do not.
    pub not: &'static [&'static str],
    /// The kinds of reports; the first that fits is it.
    pub kinds: &'static [Kind],
}

/// A kind of report.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Pattern of the line that names the trouble.
    pub line: &'static str,
    /// Patterns of lines that must follow, each after the one before.
    pub then: &'static [&'static str],
    /// The title, in which the names in braces stand for what the patterns matched, and
    /// `{function}` for the function to blame.
    pub title: &'static str,
    /// Coarser titles: the same trouble as another check would report it.
    pub coarse: &'static [&'static str],
    /// Where the function to blame is found.
    pub blame: Blame,
    /// Functions that are not to blame for this kind, besides those that never are.
    pub skip: &'static [&'static str],
    /// True if the report is not whole without a call trace.
    pub has_trace: bool,
    /// True if the kind itself shows that the beginning of the report is missing.
    pub is_rest: bool,
}

/// Where the function to blame is found.
#[derive(Clone, Copy, Debug)]
pub enum Blame {
    /// In the line, or in those that follow; or the title names none.
    Line,
    /// In the stack: the first way that leads to a function.
    Stack(&'static [Way], Choice),
}

/// A way through the lines of a report. Each step takes up where the one before ended.
pub type Way = &'static [Step];

/// A step through the lines of a report.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// To the line with the instruction pointer, whose function counts.
    Instruction,
    /// The same, if it comes before any stack.
    FirstInstruction,
    /// [`Self::Instruction`], or ppc64's `--- interrupt: 700 at f+0x1/0x2`, by which it reports a warning.
    Trap,
    /// To the line before a call trace.
    Heading,
    /// Through a call trace, to the next heading. The second such step begins another stack.
    Calls,
    /// To a line with the pattern, whose function counts, if the pattern has one.
    Line(&'static str),
}

/// Which function of a stack is to blame.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// The innermost.
    First,
    /// That which a function called that hands work out ([`hands_out_work`]).
    HandedOut,
    /// The innermost that does not merely wait ([`WAIT`]).
    Waiting,
}

impl Kind {
    /// A kind whose title has no function.
    const fn new(line: &'static str, title: &'static str) -> Self {
        Self {
            line,
            then: &[],
            title,
            coarse: &[],
            blame: Blame::Line,
            skip: &[],
            has_trace: true,
            is_rest: false,
        }
    }

    const fn then(mut self, then: &'static [&'static str]) -> Self {
        self.then = then;
        self
    }

    const fn coarse(mut self, coarse: &'static [&'static str]) -> Self {
        self.coarse = coarse;
        self
    }

    const fn by(mut self, ways: &'static [Way]) -> Self {
        self.blame = Blame::Stack(ways, Choice::First);
        self
    }

    const fn choose(mut self, choice: Choice) -> Self {
        if let Blame::Stack(ways, _) = self.blame {
            self.blame = Blame::Stack(ways, choice);
        }
        self
    }

    const fn skip(mut self, skip: &'static [&'static str]) -> Self {
        self.skip = skip;
        self
    }

    const fn without_trace(mut self) -> Self {
        self.has_trace = false;
        self
    }

    const fn rest(mut self) -> Self {
        self.is_rest = true;
        self
    }
}
