//! Ids of dumps.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::device::DumpId;
use rustix::rand::{GetRandomFlags, getrandom};
use xxhash_rust::xxh3::xxh3_128;

/// Returns a new, random id. A capture kernel's random generator may not be seeded yet, and a
/// dump does not wait for it: the id is then derived from the time.
pub fn new_dump_id() -> DumpId {
    let mut id = DumpId::default();
    let random = getrandom(&mut id.0, GetRandomFlags::NONBLOCK);
    if random.is_ok_and(|count| count == id.0.len()) {
        return id;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = format!("{:?} {}", now.unwrap_or_default(), process::id());
    DumpId(xxh3_128(seed.as_bytes()).to_le_bytes())
}
