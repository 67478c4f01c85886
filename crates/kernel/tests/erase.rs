//! What erase commands come to, on a small memory with lists that lie.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::erase::{Config, Erasure, resolve};
use bigiron_kernel::symbols::Symbols;
use bigiron_kernel::types::btf::Btf;

use common::kernel_bytes::KernelBytes;

/// Virtual addresses of the memory, and where its first page is: the second page
/// lies before it in physical memory.
const BASE: u64 = 0x10_0000;
const PAGE: u64 = 4096;
const PHYSICAL: u64 = 0x9000;

/// Physical pages lie in the other order.
fn physical(address: u64) -> u64 {
    let offset = address - BASE;
    PHYSICAL - offset / PAGE * 2 * PAGE + offset % PAGE
}

/// BTF of `struct node { struct node *next; struct list_head list; char name[8];
/// void *key; char *text; u32 len; struct { u64 inner; }; u32 flag : 3; }`, and of
/// variables of it.
fn types() -> Btf {
    let mut strings = vec![0_u8];
    let mut name = |text: &str| {
        let at = strings.len() as u32;
        strings.extend(text.bytes());
        strings.push(0);
        at
    };
    let (int, ptr, array, structure, var) = (1 << 24, 2 << 24, 3 << 24, 4 << 24, 14 << 24);
    let mut words: Vec<u32> = Vec::new();
    words.extend([name("char"), int, 1, 8]); // 1
    words.extend([name("u32"), int, 4, 32]); // 2
    words.extend([name("u64"), int, 8, 64]); // 3
    words.extend([0, ptr, 7]); // 4: struct node *
    words.extend([name("list_head"), structure | 2, 16]); // 5
    words.extend([name("next"), 6, 0, name("prev"), 6, 64]);
    words.extend([0, ptr, 5]); // 6: struct list_head *
    words.extend([name("node"), 1 << 31 | structure | 8, 72]); // 7
    for (member, type_id, offset) in [
        ("next", 4, 0),
        ("list", 5, 64),
        ("name", 8, 192),
        ("key", 9, 256),
        ("text", 10, 320),
        ("len", 2, 384),
        ("", 11, 448),
        ("flag", 2, 3 << 24 | 512),
    ] {
        let member = if member.is_empty() { 0 } else { name(member) };
        words.extend([member, type_id, offset]);
    }
    words.extend([0, array, 0, 1, 2, 8]); // 8: char[8]
    words.extend([0, ptr, 0]); // 9: void *
    words.extend([0, ptr, 1]); // 10: char *
    words.extend([0, structure | 1, 8, name("inner"), 3, 0]); // 11
    words.extend([0, array, 0, 7, 2, 3]); // 12: struct node[3]
    words.extend([0, array, 0, 10, 2, 3]); // 13: char *[3]
    for (symbol, type_id) in [
        ("head", 5),
        ("first", 7),
        ("pointer", 4),
        ("nodes", 12),
        ("texts", 13),
        ("count", 2),
    ] {
        words.extend([name(symbol), var, type_id, 1]);
    }
    let types: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let header = [24, 0, types.len(), types.len(), strings.len()];
    let header = header
        .iter()
        .flat_map(|field| (*field as u32).to_le_bytes());
    let all = [0x9f, 0xeb, 1, 0].into_iter().chain(header);
    Btf::parse(all.chain(types).chain(strings).collect(), Endian::Little).unwrap()
}

/// Where the variables are, from the start of memory.
const VARIABLES: [(&str, u64); 7] = [
    ("head", 0x10),
    ("first", 0x100),
    ("pointer", 0x20),
    ("nodes", 0x200),
    ("texts", 0x300),
    ("count", 0x30),
    ("untyped", 0x38),
];

/// What `commands` come to in memory with `words` at their offsets.
fn erase(commands: &str, words: &[(u64, u64)]) -> Erasure {
    let mut bytes = vec![0; 2 * PAGE as usize];
    for (at, word) in words {
        bytes[*at as usize..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let info = Vmcoreinfo::parse(b"OSRELEASE=6.1.0\n", 0).unwrap();
    let mut symbols = Symbols::default();
    for (name, offset) in VARIABLES {
        symbols.push(name, BASE + offset, b'D').unwrap();
    }
    let memory = KernelBytes {
        info,
        endian: Endian::Little,
        base: BASE,
        bytes,
        physical,
    };
    let config = Config::parse(commands.as_bytes());
    resolve(&config, &memory, &symbols, &types(), 0)
}

/// The blanks: offset of the first page, length, byte.
fn blanks(erasure: &Erasure) -> Vec<(u64, u64, u8)> {
    let blanks = erasure.blanks.as_slice().iter();
    let of = |start| start - PHYSICAL;
    blanks
        .map(|blank| (of(blank.start), blank.end - blank.start, blank.byte))
        .collect()
}

#[track_caller]
fn problem(erasure: &Erasure, text: &str) {
    let [problem] = &erasure.problems[..] else {
        panic!("{:?}", erasure.problems)
    };
    assert!(problem.text.contains(text), "{problem}");
}

#[test]
fn data_is_erased_by_its_type() {
    let words = [
        (0x20, BASE + 0x100),
        (0x128, BASE + 0x800),
        (0x800, 0x61_6261),
        (0x30, 5),
    ];
    let erased = erase("erase first.name", &words);
    assert_eq!(blanks(&erased), [(0x118, 8, b'X')]);
    assert_eq!(erased.info, "erase first.name size 8\n");
    // Through a pointer, a string up to its NUL, an unnamed struct.
    assert_eq!(
        blanks(&erase("erase pointer.text", &words)),
        [(0x800, 3, b'X')]
    );
    assert_eq!(blanks(&erase("erase pointer", &words)), [(0x100, 72, b'X')]);
    assert_eq!(
        blanks(&erase("erase first.inner", &words)),
        [(0x138, 8, b'X')]
    );
    assert_eq!(blanks(&erase("erase nodes", &words)), [(0x200, 216, b'X')]);
    // Sizes.
    assert_eq!(
        blanks(&erase("erase first size 2", &words)),
        [(0x100, 2, b'X')]
    );
    let erased = erase("erase first.text size count", &words);
    assert_eq!(blanks(&erased), [(0x800, 5, b'X')]);
    assert_eq!(erased.info, "erase first.text size 5\n");
    let erased = erase("erase first.text nullify", &words);
    assert_eq!(blanks(&erased), [(0x128, 8, 0)]);
    assert_eq!(erased.info, "erase first.text nullify\n");
    // A pointer that is NULL has nothing to erase, and that is no problem.
    let erased = erase(
        "erase first.next\nerase first.key size 9\nerase first.next.name",
        &words,
    );
    assert!(erased.problems.is_empty() && blanks(&erased).is_empty());
    // A type that is written down, and the same place twice.
    let erased = erase(
        "erase untyped:u32\nerase untyped:u64\nerase untyped:char[3]",
        &words,
    );
    assert_eq!(blanks(&erased), [(0x38, 8, b'X')]);
    assert_eq!(erased.info, "erase untyped:u32 size 8\n");
}

#[test]
fn virtually_contiguous_data_is_erased_at_each_physical_page() {
    let words = [(0x20, BASE + PAGE - 4)];
    let erased = erase("erase pointer size 10", &words);
    let second = 0_u64.wrapping_sub(2 * PAGE);
    let found: Vec<_> = erased
        .blanks
        .as_slice()
        .iter()
        .map(|blank| (blank.start.wrapping_sub(PHYSICAL), blank.end - blank.start))
        .collect();
    assert_eq!(found, [(second, 6), (PAGE - 4, 4)]);
    // Up to where memory ends, and the rest is a problem.
    let erased = erase("erase pointer size 10K", &words);
    problem(&erased, "not mapped");
    assert_eq!(erased.blanks.as_slice().len(), 2);
}

#[test]
fn loops_go_through_arrays_lists_and_pointers() {
    let array = "for n in nodes\nerase n.len\nerase n.name size 1\nendfor";
    let erased = erase(array, &[]);
    let starts: Vec<_> = blanks(&erased).iter().map(|blank| blank.0).collect();
    let node = |n: u64| 0x200 + 72 * n;
    let expected: Vec<_> = (0..3).flat_map(|n| [node(n) + 24, node(n) + 48]).collect();
    assert_eq!(starts, expected);
    assert!(
        erased
            .info
            .starts_with("erase n.len size 4\nerase n.len size 4\n")
    );

    let texts = [
        (0x300, BASE + 0x800),
        (0x310, BASE + 0x900),
        (0x800, 0x61),
        (0x900, 0x6161),
    ];
    let erased = erase("for t in texts\nerase t\nendfor", &texts);
    assert_eq!(blanks(&erased), [(0x800, 1, b'X'), (0x900, 2, b'X')]);

    let list = "for n in head.next within node:list\nerase n.name\nendfor";
    let links = [
        (0x10, BASE + 0x208),
        (0x208, BASE + 0x258 - 8),
        (0x250, BASE + 0x10),
    ];
    let erased = erase(list, &links);
    assert_eq!(blanks(&erased), [(0x218, 8, b'X'), (0x260, 8, b'X')]);
    assert_eq!(
        erase(list, &[(0x10, BASE + 0x10)]).info,
        "",
        "an empty list"
    );
    let back = list.replace("head.next", "head.prev");
    let erased = erase(&back, &[(0x18, BASE + 0x208), (0x210, BASE + 0x10)]);
    assert_eq!(blanks(&erased), [(0x218, 8, b'X')]);

    let chain = "for n in first via next\nerase n.name\nendfor";
    let erased = erase(chain, &[(0x100, BASE + 0x200)]);
    assert_eq!(blanks(&erased), [(0x118, 8, b'X'), (0x218, 8, b'X')]);
    let erased = erase(chain, &[(0x100, BASE + 0x200), (0x200, BASE + 0x100)]);
    assert_eq!(blanks(&erased).len(), 2, "around a circle once");
}

#[test]
fn damaged_lists_and_lengths_end_with_an_error() {
    let chain = "for n in first via next\nerase n.name\nendfor";
    let erased = erase(chain, &[(0x100, BASE + 0x200), (0x200, BASE + 0x200)]);
    problem(&erased, "does not end");
    assert_eq!(blanks(&erased).len(), 2, "what was found is erased");
    let erased = erase(chain, &[(0x100, 0x1234)]);
    assert!(!erased.problems.is_empty());
    problem(&erase("erase first size 17000M", &[]), "too many");
    problem(&erase("erase first.flag", &[]), "bit field");
    problem(&erase("erase first.key", &[(0x120, BASE)]), "no size");
    problem(&erase("erase first.name nullify", &[]), "not a pointer");
    problem(&erase("erase nodes.name", &[]), "array");
    problem(&erase("erase count.name", &[]), "not a struct");
    problem(
        &erase("erase untyped", &[]),
        "type of 'untyped' is not known",
    );
    problem(&erase("erase first size first.name", &[]), "a base type");
    problem(
        &erase("for n in head\nerase n.name\nendfor", &[]),
        "requires 'within STRUCT:MEMBER'",
    );
    problem(
        &erase("for n in head within node:name\nerase n\nendfor", &[]),
        "list_head",
    );
    problem(
        &erase("for n in first via text\nerase n\nendfor", &[]),
        "does not point",
    );
    problem(
        &erase("[sd_mod]\nerase a\nerase b", &[]),
        "modules are not read",
    );
}
