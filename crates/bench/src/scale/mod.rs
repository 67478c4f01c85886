//! A model of the dump pipeline, for machines that are not available: discrete events,
//! deterministic, calibrated with the costs of the stages.
//!
//! - [`model`]: the description of a machine and a dump.
//! - [`simulate`]: the simulation; [`outcome`]: its results.
//! - [`costs`]: the stated costs of pages; [`calibrate`], [`stages`]: the measured ones.
//! - [`check`]: the comparison with real dumps.
//! - [`solaris`], [`remap`]: reproductions of published measurements; [`windows`]: of one made in a
//!   capture kernel.
//! - [`large`]: a machine of 32 TB.
//! - [`service`]: the time from panic to service.
//! - [`plot`]: a plot of time against helpers.

pub mod calibrate;
pub mod check;
pub mod costs;
mod events;
pub mod large;
pub mod model;
pub mod outcome;
pub mod plot;
pub mod remap;
pub mod service;
pub mod simulate;
pub mod solaris;
pub mod stages;
#[cfg(test)]
mod tests;
pub mod windows;
