//! Valid BTF with arbitrary references: a lookup of any name, also of one that does not exist,
//! takes a number of steps in proportion to the table.
#![no_main]

use bigiron_format::bytes::Endian;
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::limits::{TABLE_MEMORY, within};
use bigiron_fuzz::made_btf::{Counted, NAMES, encode};
use bigiron_inspect::declaration::declaration;
use bigiron_inspect::define;
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::types::{TypeId, find_member, resolve, size_of};
use libfuzzer_sys::fuzz_target;

/// Number of types examined, from the end: these contain most others.
const MOST: u64 = 8;
/// Most lookups: in any case, and for each type of the table.
const STEPS: u64 = 1 << 18;
const STEPS_PER_TYPE: u64 = 64;
/// Most lookups of a definition, whatever the table: it is refused from 100,000 members on, and
/// the declaration of each takes at most two lookups for each of 32 levels.
const DEFINITION_STEPS: u64 = 100_000 * 2 * 32;

fuzz_target!(|data: &[u8]| {
    let bytes = encode(&mut Choices(data));
    let btf = Btf::parse(bytes, Endian::Little).expect("a valid table");
    let most = STEPS + STEPS_PER_TYPE * btf.len();
    let counted = Counted::new(&btf);
    within(TABLE_MEMORY, data.len(), || {
        for id in (0..btf.len()).rev().take(MOST as usize).map(TypeId) {
            for name in ["no such name", "next", "a", ""] {
                let _ = counted.within(most, "find_member", |types| find_member(types, id, name));
            }
            let _ = counted.within(most, "resolve", |types| resolve(types, id));
            let _ = counted.within(most, "size_of", |types| size_of(types, id));
            let _ = counted.within(most, "declaration", |types| declaration(types, id, "x"));
        }
        for name in NAMES.into_iter().chain(["no_such_type", "no_such()", ""]) {
            let _ = counted.within(DEFINITION_STEPS, "define", |types| define(types, name));
        }
    });
});
