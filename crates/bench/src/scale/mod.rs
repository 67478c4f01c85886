//! A model of the dump pipeline, to see how machines behave that are not at
//! hand: discrete events, deterministic, calibrated from costs of stages.
//!
//! - [`model`]: what a machine and a dump are made of.
//! - [`simulate`]: runs it; [`outcome`]: what came out.
//! - [`costs`]: what pages cost, stated; [`calibrate`], [`stages`]: or measured.
//! - [`check`]: holds the model against real dumps.
//! - [`solaris`], [`remap`]: public measurements of the past, reproduced.
//! - [`large`]: a machine of 32 TB.
//! - [`plot`]: time against helpers as a picture.

pub mod calibrate;
pub mod check;
pub mod costs;
mod events;
pub mod large;
pub mod model;
pub mod outcome;
pub mod plot;
pub mod remap;
pub mod simulate;
pub mod solaris;
pub mod stages;
#[cfg(test)]
mod tests;
