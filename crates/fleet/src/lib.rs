//! A table of the crashes of many machines: finds dumps and logs, has each described by a process
//! of its own, and keeps the descriptions as Parquet.
//!
//! What describes a dump is not here: a program is started for each, and prints a [`Row`] as
//! JSON. A dump that kills or hangs its process costs its own row, and nothing else.

pub mod buckets;
mod child;
mod columns;
mod error;
mod find;
mod journal;
mod listed;
mod read;
mod row;
mod run;
mod shard;
mod write;

pub use buckets::{Bucket, Buckets, Counter};
pub use child::{Child, Limits};
pub use error::FleetError;
pub use find::{FRONT, Found, find, is_text, read_list};
pub use listed::choose;
pub use read::{read_table, table_files};
pub use row::{Row, SCHEMA_VERSION};
pub use run::{Outcome, Run, run};
pub use shard::Shard;
