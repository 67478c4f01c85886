//! What the checks are made with.

use super::estimate::Estimates;
use super::kit::Kit;
use super::place::Target;
use super::root::Root;

/// What the checks are made with.
pub struct Checked<'a> {
    /// The root directory.
    pub root: &'a Root,
    /// The settings of the capture kernel's scripts.
    pub kit: &'a Kit,
    /// The place of the dump.
    pub target: &'a Target,
    /// The estimates, if they were made.
    pub estimates: Option<&'a Estimates>,
}
