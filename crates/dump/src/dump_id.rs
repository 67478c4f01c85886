//! Ids of dumps.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::device::DumpId;
use rustix::rand::{GetRandomFlags, getrandom};
use xxhash_rust::xxh3::xxh3_128;

/// An id that no other dump has. A capture kernel may have no randomness yet,
/// and a dump does not wait for it: then the time tells dumps apart.
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
