//! The measurements, apart from the command line.

pub mod adaptive;
pub mod chunk;
pub mod filter;
pub mod optimizations;
pub mod read;
pub mod stripes;
pub mod trial;
