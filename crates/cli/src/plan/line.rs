//! Lines of the plan, and their verdicts.

use serde::Serialize;

/// How good or bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// A choice to know about.
    Note,
    /// Some crashes leave no dump, or the dump may fail.
    Warning,
    /// There will be no dump.
    Failure,
}

impl Verdict {
    /// The word in text output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "WARNING",
            Self::Failure => "FAILURE",
        }
    }

    /// The exit code of the worst verdict.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok | Self::Note => 0,
            Self::Warning => 1,
            Self::Failure => 2,
        }
    }
}

/// A part of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// From the failure to the capture kernel.
    Panic,
    /// The capture kernel's memory.
    Reservation,
    /// The place of the dump.
    Target,
    /// Options, keys, initramfs, units.
    Prepared,
    /// The dump device in memory.
    MemoryDevice,
    /// A dump in the capture kernel's image.
    Rehearsal,
}

impl Section {
    /// The heading in text output.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Panic => "from the failure to the capture kernel",
            Self::Reservation => "memory of the capture kernel",
            Self::Target => "place of the dump",
            Self::Prepared => "prepared",
            Self::MemoryDevice => "dump device in memory",
            Self::Rehearsal => "rehearsal in the capture kernel's image",
        }
    }
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The part that it belongs to.
    pub section: Section,
    /// What was checked, the same on all machines.
    pub name: &'static str,
    /// The judgement.
    pub verdict: Verdict,
    /// What was found; for a warning or failure, what follows from it and what to do.
    pub text: String,
}

impl Line {
    /// Creates a line; [`super::check`] sets its section.
    pub fn new(name: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            section: Section::Panic,
            name,
            verdict,
            text: text.into(),
        }
    }

    /// Moves the line to `section`.
    pub fn in_section(self, section: Section) -> Self {
        Self { section, ..self }
    }
}
