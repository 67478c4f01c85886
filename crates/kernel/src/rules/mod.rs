//! Rules for pages: which pages to keep, to drop or to blank, whatever the dump level says.
//!
//! | module | contents |
//! |---|---|
//! | `toml` | the syntax of the file |
//! | `rule` | a rule: an action, and what selects its pages |
//! | `resolve` | finds the page frames of each rule |
//! | `resolved` | what they are |
//! | `owners` | pages by what their struct pages point to: slab cache, file, memory cgroup |
//! | `processes` | the user memory of processes |
//! | `objects` | pages that kernel objects name |

mod objects;
mod owners;
mod processes;
mod resolve;
mod resolved;
mod rule;
mod toml;

pub use resolve::resolve;
pub use resolved::{ResolvedRule, ResolvedRules, SectionRules};
pub use rule::{Action, MAX_BYTES, Rule, Rules, RulesError};
