//! A simple filter that uses only the keys of VMCOREINFO finds in the struct pages of every
//! kernel what the text describes. For kernels unknown to any installed makedumpfile, this is
//! the test that struct pages and text agree.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use bigiron_synth::{Machine, Synth, presets, random_machine};
use common::machines::some_machines;
use common::reader::Reader;

/// A struct page, read at the offsets from VMCOREINFO.
struct Page {
    flags: u64,
    mapping: u64,
    private: u64,
    link: u64,
    mapcount: i64,
}

/// The properties of a frame that a filter reads.
struct Facts {
    tail: bool,
    /// Number of frames that are treated like the head.
    block: u64,
    /// Number of frames of a free or unaccepted block; 0 is a block to leave alone.
    free: Option<u64>,
    unaccepted: Option<u64>,
    cache: bool,
    private: bool,
    user: bool,
    gone: bool,
}

struct Filter {
    /// `None` if the frame is not RAM.
    frames: Vec<Option<Facts>>,
    /// Number of the first one.
    first: u64,
    /// True if struct pages are read at every level, for PG_hwpoison.
    poison: bool,
}

impl Filter {
    fn new(machine: &Machine) -> Self {
        let reader = Reader::new(machine);
        // Frames below the start of RAM are not stored.
        let first = machine.ram()[0].start;
        let frames = (first..machine.max_pfn())
            .map(|pfn| machine.class(pfn).map(|_| facts(&reader, pfn)))
            .collect();
        let poison = number(&reader, "PG_hwpoison").is_some();
        Self {
            frames,
            first,
            poison,
        }
    }

    /// Returns the number of frames from this one on that a level excludes; `None` if it keeps
    /// the frame.
    fn excludes(&self, pfn: usize, level: u8) -> Option<u64> {
        let facts = self.frames[pfn].as_ref()?;
        let has = |bit: u8| level & bit != 0;
        if facts.tail {
            return None;
        }
        if has(16) && facts.free.is_some() {
            return facts.free.filter(|count| *count > 0);
        }
        if has(16) && facts.unaccepted.is_some() {
            return facts.unaccepted;
        }
        let gone = has(2) && facts.cache && !facts.private
            || has(4) && facts.cache
            || has(8) && facts.user
            || facts.gone;
        gone.then_some(facts.block)
    }

    fn kept(&self, level: u8) -> Vec<bool> {
        let mut kept: Vec<_> = self.frames.iter().map(Option::is_some).collect();
        if !self.poison && level & 30 == 0 {
            return kept;
        }
        let mut pfn = 0;
        while pfn < kept.len() {
            let count = self.excludes(pfn, level);
            let end = (pfn + count.unwrap_or(1) as usize).min(kept.len());
            if count.is_some() {
                kept[pfn..end].fill(false);
            }
            pfn = end;
        }
        kept
    }
}

fn number(reader: &Reader<'_>, name: &str) -> Option<i64> {
    let value = reader.info.get(&format!("NUMBER({name})"))?;
    Some(value.parse().unwrap())
}

fn facts(reader: &Reader<'_>, pfn: u64) -> Facts {
    let page = page(reader, pfn);
    let flag = |name: &str| number(reader, name).is_some_and(|bit| page.flags >> bit & 1 == 1);
    let typed = |name: &str| {
        let key = format!("PAGE_{name}_MAPCOUNT_VALUE");
        number(reader, &key) == Some(page.mapcount)
    };
    let mask = reader.decimal("NUMBER(PG_head_mask)") as u64;
    let (order, hugetlb) = if page.flags & mask != 0 {
        order_and_hugetlb(reader, pfn, &page)
    } else {
        (0, false)
    };
    let slab = flag("PG_slab") || typed("SLAB");
    let swap = flag("PG_swapbacked") && flag("PG_swapcache");
    let anon = page.mapping & 1 == 1 && !slab;
    let orders = reader.offset("LENGTH(zone.free_area)");
    let free = if page.private < orders {
        1 << page.private
    } else {
        0
    };
    Facts {
        tail: page.link & 1 == 1,
        // A head at an impossible address is a single page.
        block: if pfn.is_multiple_of(1 << order) {
            1 << order
        } else {
            1
        },
        free: (!slab && typed("BUDDY")).then_some(free),
        unaccepted: typed("UNACCEPTED").then_some(1 << (orders - 1)),
        cache: (flag("PG_lru") || swap) && !anon,
        private: flag("PG_private"),
        user: anon || hugetlb,
        gone: flag("PG_hwpoison") || !slab && typed("OFFLINE"),
    }
}

fn page(reader: &Reader<'_>, pfn: u64) -> Page {
    let vaddr = reader.struct_page(pfn).expect("a section with RAM");
    let at = reader.translate(vaddr).expect("vmemmap is mapped");
    let word = |key: &str| reader.phys(at + reader.offset(key));
    let link = ["OFFSET(page.compound_head)", "OFFSET(page.compound_info)"]
        .into_iter()
        .find(|key| reader.info.contains_key(*key));
    Page {
        flags: word("OFFSET(page.flags)"),
        mapping: word("OFFSET(page.mapping)"),
        private: word("OFFSET(page.private)"),
        link: word(link.expect("a link from tail to head")),
        mapcount: i64::from(reader.phys32(at + reader.offset("OFFSET(page._mapcount)")) as i32),
    }
}

/// Returns the order of a head, and true if it is hugetlb.
fn order_and_hugetlb(reader: &Reader<'_>, pfn: u64, head: &Page) -> (u64, bool) {
    let next = reader.struct_page(pfn + 1).expect("the next struct page");
    let next = reader.translate(next).expect("vmemmap is mapped");
    let flags = reader.phys(next + reader.offset("OFFSET(page.flags)"));
    if let Some(kind) = number(reader, "PAGE_HUGETLB_MAPCOUNT_VALUE") {
        return (flags & 0xff, head.mapcount == kind);
    }
    if let Some(bit) = number(reader, "PG_hugetlb") {
        return (flags & 0xff, flags >> bit & 1 == 1);
    }
    let size = reader.offset("SIZE(page)");
    let (order, dtor) = if reader.info.contains_key("OFFSET(folio._folio_order)") {
        (
            reader.offset("OFFSET(folio._folio_order)") - size,
            reader.offset("OFFSET(folio._folio_dtor)") - size,
        )
    } else {
        (
            reader.offset("OFFSET(page.compound_order)"),
            reader.offset("OFFSET(page.compound_dtor)"),
        )
    };
    let byte = |offset: u64| u64::from(reader.byte(next + offset));
    let hugetlb = number(reader, "HUGETLB_PAGE_DTOR") == Some(byte(dtor) as i64);
    (byte(order), hugetlb)
}

fn check(name: &str, text: &str) {
    let machine = Synth::from_text(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let filter = Filter::new(&machine);
    let first = filter.first as usize;
    for level in 0..32 {
        let (kept, expected) = (filter.kept(level), machine.expected_dumpable(level));
        let wrong = (0..kept.len()).find(|at| kept[*at] != expected[first + *at]);
        let run = wrong.map(|at| (first + at, machine.run((first + at) as u64)));
        assert!(run.is_none(), "{name}, level {level}: {run:x?}\n{text}");
    }
}

/// All kernels of x86_64, several machines each, all 32 levels.
#[test]
fn struct_pages_agree_with_the_text() {
    for kernel in presets() {
        for seed in 10..14 {
            let name = format!("{kernel}, seed {seed}");
            check(&name, &random_machine(seed, kernel));
        }
    }
}

/// Machines of all architectures, all 32 levels.
#[test]
fn struct_pages_of_every_architecture_agree_with_the_text() {
    for (name, text) in some_machines(4, 20) {
        check(&name, &text);
    }
}
