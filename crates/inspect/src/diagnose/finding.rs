//! A finding: something in a dump that may be why the machine stopped.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::instruction::Instruction;
use crate::json::hexadecimal;
use crate::program::Program;
use crate::source_lines::SourceLine;
use crate::waits::TaskName;

/// Findings of at least this weight explain why a machine stopped; others are remarks.
pub const WEIGHTY: u8 = 50;
/// Reasons of one finding, and tasks and addresses that it names.
const MAX_PARTS: usize = 16;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The kernel's own data say so.
    Certain,
    /// Several signs agree.
    Likely,
    /// One sign, which other causes may have.
    Possible,
}

impl Sure {
    /// The word in text output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// An address that a finding names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// What is there.
    pub what: String,
    /// The address.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// The symbol that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its kind, a fixed word.
    pub kind: &'static str,
    /// How likely it is the reason why the machine stopped, from 0 to 100.
    pub weight: u8,
    /// What was found, in one line.
    pub title: String,
    /// How sure it is.
    pub sure: Sure,
    /// Why: what in the dump says so, most important first.
    pub because: Vec<String>,
    /// The tasks concerned.
    pub tasks: Vec<TaskName>,
    /// The CPUs concerned.
    pub cpus: Vec<usize>,
    /// The addresses concerned.
    pub places: Vec<Place>,
    /// The instruction that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<Instruction>,
    /// Where the kernel failed.
    #[serde(skip)]
    pub failed_at: Option<VirtAddr>,
    /// Source line of [`Self::failed_at`], and those that it was inlined into, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<SourceLine>,
    /// Commands that show more; DUMP stands for the dump.
    pub more: Vec<String>,
}

impl Finding {
    /// A finding without evidence yet.
    pub fn new(kind: &'static str, weight: u8, sure: Sure, title: String) -> Self {
        Self {
            kind,
            weight,
            title,
            sure,
            because: Vec::new(),
            tasks: Vec::new(),
            cpus: Vec::new(),
            places: Vec::new(),
            instruction: None,
            failed_at: None,
            source: Vec::new(),
            more: Vec::new(),
        }
    }

    /// Adds a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        if self.because.len() < MAX_PARTS {
            self.because.push(reason.into());
        }
        self
    }

    /// Adds the callers as a reason, the innermost first, if there are any.
    pub fn called_by<'c>(self, calls: impl IntoIterator<Item = &'c String>) -> Self {
        let calls: Vec<&str> = calls.into_iter().map(String::as_str).collect();
        match calls.is_empty() {
            true => self,
            false => self.because(format!("called by {}", calls.join(" < "))),
        }
    }

    /// Adds a reason, if there is one.
    pub fn because_of(self, reason: Option<String>) -> Self {
        match reason {
            Some(reason) => self.because(reason),
            None => self,
        }
    }

    /// Adds a task, once.
    pub fn task(mut self, task: &TaskName) -> Self {
        let is_new = !self.tasks.iter().any(|known| known.address == task.address);
        if is_new && self.tasks.len() < MAX_PARTS {
            self.tasks.push(task.clone());
        }
        self
    }

    /// Adds a CPU.
    pub fn cpu(mut self, cpu: usize) -> Self {
        if !self.cpus.contains(&cpu) && self.cpus.len() < MAX_PARTS {
            self.cpus.push(cpu);
        }
        self
    }

    /// Adds an address, once, with its symbol.
    pub fn place(mut self, program: &Program, what: impl Into<String>, address: VirtAddr) -> Self {
        let is_new = !self.places.iter().any(|known| known.address == address);
        if is_new && self.places.len() < MAX_PARTS {
            self.places.push(Place {
                what: what.into(),
                address,
                symbol: program.symbol_at(address).map(|found| found.to_string()),
            });
        }
        self
    }

    /// Adds a command that shows more.
    pub fn more(mut self, command: impl Into<String>) -> Self {
        self.more.push(command.into());
        self
    }
}

/// Formats nanoseconds as `12.3 s`.
pub fn seconds(nanoseconds: u64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}
