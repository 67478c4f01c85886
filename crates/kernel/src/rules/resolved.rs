//! The page frames of rules.

use std::fmt::Write as _;
use std::time::Duration;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;

use super::rule::{Action, Rule};
use crate::frame_set::FrameSet;
use crate::guard::GuardedFrames;

/// The page frames of a rule.
#[derive(Clone, Debug)]
pub struct ResolvedRule {
    /// Name of the rule.
    pub name: String,
    /// What happens to them.
    pub action: Action,
    /// The page frames.
    pub frames: FrameSet,
    /// Why some or all of them are not known; `None` if they are.
    pub problem: Option<String>,
    /// Time that finding them took. Rules by owner share one pass over all struct pages, which
    /// counts for the first of them.
    pub time: Duration,
}

impl ResolvedRule {
    pub(super) fn empty(rule: &Rule) -> Self {
        Self {
            name: rule.name.clone(),
            action: rule.action,
            frames: FrameSet::large(),
            problem: None,
            time: Duration::ZERO,
        }
    }
}

/// The page frames of all rules, in order. For a page frame of several rules the first one counts.
#[derive(Clone, Debug, Default)]
pub struct ResolvedRules {
    rules: Vec<ResolvedRule>,
    /// What the kernel uses for itself, which is never dropped nor blanked.
    guarded: GuardedFrames,
}

/// What the rules say about the page frames of a section, a bit each. No page frame has two.
#[derive(Clone, Debug)]
pub struct SectionRules {
    /// Kept, also against the dump level.
    pub keep: Bitmap,
    /// Not dumped.
    pub drop: Bitmap,
    /// Dumped without their contents, if the dump level keeps them.
    pub blank: Bitmap,
}

impl ResolvedRules {
    pub(super) fn new(rules: Vec<ResolvedRule>, guarded: GuardedFrames) -> Self {
        Self { rules, guarded }
    }

    /// The rules.
    pub fn as_slice(&self) -> &[ResolvedRule] {
        &self.rules
    }

    /// Returns true if no rule has a page frame.
    pub fn is_empty(&self) -> bool {
        self.rules.iter().all(|rule| rule.frames.is_empty())
    }

    /// Returns true if a rule blanks page frames.
    pub fn blank_any(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.action == Action::Blank && !rule.frames.is_empty())
    }

    /// Warnings for people, one for each rule that has a problem.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.rules.iter().filter_map(|rule| {
            let problem = rule.problem.as_ref()?;
            Some(format!("rule \"{}\": {problem}", rule.name))
        })
    }

    /// A line for each rule, for the dump itself.
    pub fn record(&self) -> String {
        let mut text = String::new();
        for rule in &self.rules {
            let (action, count) = (rule.action.name(), rule.frames.len());
            let _ = writeln!(text, "rule {action} {count} pages: {}", rule.name);
        }
        text
    }

    /// Returns what the rules say about the `count` page frames from `first` on. Both are multiples
    /// of 512.
    pub fn section(&self, first: PageFrame, count: usize) -> SectionRules {
        let mut section = SectionRules {
            keep: Bitmap::new(count),
            drop: Bitmap::new(count),
            blank: Bitmap::new(count),
        };
        let mut bits = Bitmap::new(count);
        for rule in &self.rules {
            if rule.frames.is_empty() {
                continue;
            }
            bits.clear();
            rule.frames.mark(first, &mut bits);
            bits.and_not(&section.keep);
            bits.and_not(&section.drop);
            bits.and_not(&section.blank);
            match rule.action {
                Action::Keep => section.keep.or(&bits),
                Action::Drop => section.drop.or(&bits),
                Action::Blank => section.blank.or(&bits),
            }
        }
        for (start, end, _) in self.guarded.within(first, count as u64) {
            section.drop.clear_range(start, end);
            section.blank.clear_range(start, end);
        }
        section
    }
}
