//! What several tests share.
#![allow(dead_code, reason = "no test uses all of it")]

pub mod kdump_headers;
pub mod kept;
pub mod kernel_bytes;
pub mod log_memory;
