//! Damaged kernel types, and arbitrary bytes as the output of the BPF program: an accepted
//! layout reads only these bytes. Input: the number of edits of the types, each a location and
//! a value, then the bytes.
#![no_main]

use std::sync::LazyLock;

use bigiron_cpu::source::bpf::Layout;
use libfuzzer_sys::fuzz_target;

/// BTF of the requested types: kinds, names and members of a kernel's structs.
static TYPES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut names = vec![0];
    let mut name = |text: &str| {
        let at = names.len() as u32;
        names.extend(text.bytes().chain([0]));
        at
    };
    // 1: int, 2: long, 3: a pointer, 4: a flexible array.
    let mut types = [
        [name("int"), 1 << 24, 4, 32],
        [name("long"), 1 << 24, 8, 64],
    ]
    .concat();
    types.extend([0, 2 << 24, 0, 0, 3 << 24, 0, 2, 1, 0]);
    let mut structure = |text: &str, size, members: &[(&str, u32, u32)]| {
        types.extend([name(text), 4 << 24 | members.len() as u32, size]);
        for (text, id, offset) in members {
            types.extend([name(text), *id, offset * 8]);
        }
    };
    structure("sched_group", 16, &[("flags", 1, 8)]);
    let members = [
        ("parent", 3, 0),
        ("groups", 3, 8),
        ("min_interval", 2, 16),
        ("max_interval", 2, 24),
        ("busy_factor", 1, 32),
        ("imbalance_pct", 1, 36),
        ("cache_nice_tries", 1, 40),
        ("flags", 1, 44),
        ("level", 1, 48),
        ("max_newidle_lb_cost", 2, 56),
        ("name", 3, 64),
        ("span", 4, 72),
    ];
    structure("sched_domain", 72, &members);
    structure("rq", 64, &[("rd", 3, 0), ("sd", 3, 8)]);
    types.extend([name("runqueues"), 14 << 24, 7, 1]);
    types.extend([0, 6 << 24 | 1, 4, name("SD_NUMA"), 0x2000]);
    let length = 4 * types.len() as u32;
    let header = [0x1_eb9f, 24, 0, length, length, names.len() as u32];
    let words = header
        .iter()
        .chain(&types)
        .flat_map(|word| word.to_ne_bytes());
    words.chain(names.iter().copied()).collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((&edits, mut rest)) = data.split_first() else {
        return;
    };
    let mut types = TYPES.clone();
    for _ in 0..edits % 8 {
        let Some((edit, behind)) = rest.split_at_checked(6) else {
            return;
        };
        let place = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % types.len();
        for (byte, new) in types[place..].iter_mut().zip(&edit[2..]) {
            *byte = *new;
        }
        rest = behind;
    }
    let Ok(layout) = Layout::of(types, usize::from(edits) + 1) else {
        assert!(edits % 8 > 0, "the types are sound");
        return;
    };
    assert!(layout.value_size() < 4 << 20);
    let Ok(chain) = layout.chain(1, rest) else {
        return;
    };
    for (number, domain) in chain.iter().enumerate() {
        assert_eq!((domain.cpu, domain.number), (1, number));
        assert!(
            domain
                .span
                .as_ref()
                .is_some_and(|span| span.iter().all(|cpu| cpu <= u32::from(edits)))
        );
    }
});
