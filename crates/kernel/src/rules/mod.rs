//! Rules for pages: which pages to keep or to drop, whatever the dump level says.
//!
//! | module | contents |
//! |---|---|
//! | `toml` | the syntax of the file |
//! | `rule` | a rule: an action, and what selects its pages |
//! | `resolve` | the page frames of each rule |
//! | `owners` | pages by what their struct pages point to: slab cache, file, memory cgroup |
//! | `processes` | the user memory of processes |
//! | `objects` | pages that kernel objects name |

mod objects;
mod owners;
mod processes;
mod resolve;
mod rule;
mod toml;

pub use resolve::{ResolvedRule, ResolvedRules};
pub use rule::{Action, MAX_BYTES, Rule, Rules, RulesError};
