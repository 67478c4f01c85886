//! Random valid texts.

use std::fmt::Write;

use crate::kernels::Kernel;
use crate::memory::SplitMix;
use crate::platform::Platform;
use crate::spec::Leaf;

/// Bytes from the start of RAM: where a hole begins, where named frames begin and end, and the
/// end of RAM. The rest is left to the builder.
const HOLE: u64 = 0xa_0000;
const NAMED: u64 = 0x10_0000;
const NAMED_END: u64 = 0x100_0000;
const RAM_END: u64 = 0x200_0000;
/// The same on architectures whose mem_section or struct pages need more.
const RAM_END_LARGE: u64 = 0x380_0000;
/// Distance of some memory in another section and zone, and its largest size.
const HIGH: u64 = 4 << 30;
const HIGH_SIZE: u64 = 0x80_0000;
/// The largest leaf for which the builder certainly finds room.
const LARGEST_BLOCK: u32 = 24;

/// Returns a varied, valid text of an x86_64 machine for a kernel of
/// [`presets`](crate::presets), always the same for the same seed. An unknown kernel is written
/// to the text, and is an error only when the text is parsed.
pub fn random_machine(seed: u64, kernel: &str) -> String {
    random_machine_on(seed, "x86_64", kernel)
}

/// Returns such a text of any architecture; `arch` has the words of an `arch` line.
pub fn random_machine_on(seed: u64, arch: &str, kernel: &str) -> String {
    let mut random = SplitMix::new(seed);
    let mut text = String::new();
    let known = Kernel::named(kernel);
    let words: Vec<_> = arch.split_whitespace().collect();
    let platform = Platform::from_words(1, &words).unwrap_or_default();
    // Writing to a String cannot fail.
    if arch != "x86_64" {
        let _ = writeln!(text, "arch {arch}");
    }
    let leaf = settings(&mut text, &mut random, kernel, &platform);
    let shift = platform.page_shift;
    let base = platform.arch().usual_ram_base();
    let frame = |bytes: u64| (base + bytes) >> shift;
    let end = if platform.name == "x86_64" {
        RAM_END
    } else {
        RAM_END_LARGE
    };
    let _ = writeln!(
        text,
        "ram {:#x}-{:#x} {:#x}-{:#x}",
        frame(0),
        frame(HOLE) - 1,
        frame(NAMED),
        frame(end) - 1
    );
    let most = HIGH_SIZE >> shift;
    let high = random.below(2) * (most / 8 + random.below(most * 7 / 8));
    if high > 0 {
        let start = frame(HIGH);
        let _ = writeln!(text, "ram {start:#x}-{:#x}", start + high - 1);
    }
    if random.below(3) == 0 {
        let split = frame(0x40_0000) + random.below(frame(NAMED_END) - frame(0));
        let _ = writeln!(text, "node 0 0x0-{:#x}", split - 1);
        let _ = writeln!(text, "node 1 {split:#x}-{:#x}", frame(HIGH + 2 * HIGH_SIZE));
    }
    let hvo = leaf == Leaf::Small
        && shift == 12
        && platform.arch().has_optimized_vmemmap()
        && known.is_some_and(|kernel| kernel.since(5, 18));
    let words = Words {
        known,
        hvo,
        poison: platform.arch().memory_failure(),
        unaccepted: platform.name == "x86_64",
        largest: u64::from(platform.arch().page_orders(&platform)) - 1,
    };
    runs(
        &mut text,
        &mut random,
        words,
        frame(NAMED)..frame(NAMED_END),
    );
    if high > 0 {
        let start = frame(HIGH);
        runs(&mut text, &mut random, words, start..start + high);
    }
    text
}

/// Writes the `kernel` line; returns the leaf of vmemmap.
fn settings(text: &mut String, random: &mut SplitMix, kernel: &str, platform: &Platform) -> Leaf {
    let since = |major, minor| Kernel::named(kernel).is_some_and(|it| it.since(major, minor));
    let mut leaf = |limit: u32| {
        let all = [Leaf::Small, Leaf::Contiguous, Leaf::Large, Leaf::Giant];
        let shift = |leaf: &Leaf| platform.leaf_shift(*leaf).filter(|shift| *shift <= limit);
        let leaves: Vec<_> = all
            .into_iter()
            .filter(|leaf| shift(leaf).is_some())
            .collect();
        let leaf = leaves[random.below(leaves.len() as u64) as usize];
        let shift = shift(&leaf).unwrap_or(platform.page_shift);
        let unit = ["", "k", "m", "g", "t"][shift as usize / 10];
        (leaf, format!("{}{unit}", 1 << (shift % 10)))
    };
    let ((vmemmap, name), (_, direct), (_, image)) = (leaf(LARGEST_BLOCK), leaf(63), leaf(21));
    let _ = write!(text, "kernel {kernel} vmemmap_leaf={name} direct={direct}");
    let _ = write!(text, " image_leaf={image}");
    match platform.name {
        "x86_64" => {
            let _ = write!(text, " levels={}", 4 + random.below(2));
        }
        "s390x" => {
            let _ = write!(text, " levels={}", 3 + random.below(3));
        }
        _ => {}
    }
    let has_kaslr = match platform.name {
        "x86_64" | "arm64" => true,
        "s390x" => since(6, 10),
        "riscv64" => since(6, 7),
        _ => false,
    };
    if has_kaslr {
        let _ = write!(text, " kaslr={:#x}", random.below(0x100) << 21);
    }
    let _ = write!(text, " mem_section={}", pick(random, &["16", "32"]));
    let _ = write!(text, " cpus={}", 1 + random.below(4));
    let _ = write!(text, " vmalloc={}", random.below(12));
    if platform.name == "x86_64" && since(5, 1) && random.below(4) == 0 {
        let _ = write!(text, " sme=47");
    }
    let _ = writeln!(text);
    vmemmap
}

fn pick<'a>(random: &mut SplitMix, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

#[derive(Clone, Copy)]
struct Words {
    known: Option<&'static Kernel>,
    hvo: bool,
    poison: bool,
    unaccepted: bool,
    /// The largest order.
    largest: u64,
}

/// Fills a range with runs and gaps.
fn runs(text: &mut String, random: &mut SplitMix, words: Words, range: std::ops::Range<u64>) {
    let mut pfn = range.start;
    loop {
        pfn += if random.below(3) == 0 {
            random.below(40)
        } else {
            0
        };
        let (class, order, extra) = words.one(random);
        pfn = pfn.next_multiple_of(1 << order);
        let room = range.end.saturating_sub(pfn) >> order;
        if room == 0 {
            return;
        }
        let most = if order > 3 { 2 } else { 24 };
        let count = 1 + random.below(most.min(room));
        let _ = write!(text, "pages {pfn:#x} {class} n={count}");
        if order > 0 || class == "hugetlb" || class == "thp" {
            let _ = write!(text, " order={order}");
        }
        let fill = match random.below(8) {
            0 => "zero".to_owned(),
            1 => format!("const:{}", random.below(256)),
            2 => format!("random:{}", random.below(4)),
            _ => "stamp".to_owned(),
        };
        let _ = writeln!(text, "{extra} fill={fill}");
        pfn += count << order;
    }
}

impl Words {
    /// Returns class, order and modifiers of one run.
    fn one(self, random: &mut SplitMix) -> (&'static str, u64, &'static str) {
        let (class, order, extra) = self.any(random);
        match (class, order.min(self.largest), extra) {
            ("hwpoison", order, extra) if !self.poison => ("kernel", order, extra),
            (class, order, " hwpoison") if !self.poison => (class, order, ""),
            run => run,
        }
    }

    fn any(self, random: &mut SplitMix) -> (&'static str, u64, &'static str) {
        let flag = |random: &mut SplitMix, word: &'static str| {
            if random.below(4) == 0 { word } else { "" }
        };
        // Small orders are typical, and large ones would soon fill the range.
        let small = |random: &mut SplitMix, limit: u64| {
            (0..3).map(|_| random.below(limit)).min().unwrap_or(0)
        };
        match random.below(17) {
            0..=3 => ("free", small(random, 11), ""),
            4 => {
                let extra = ["", " private", " dirty", " private dirty", " hwpoison"];
                ("cache", 0, pick(random, &extra))
            }
            5 => ("cache", small(random, 8), ""),
            6 => ("anon", 0, flag(random, " hwpoison")),
            7 => ("thp", 1 + small(random, 9), flag(random, " dirty")),
            8 if self.hvo => ("hugetlb", 7 + random.below(3), flag(random, " hvo")),
            8 => ("hugetlb", 1 + small(random, 9), flag(random, " hwpoison")),
            9 => ("slab", random.below(4), flag(random, " anonbit")),
            10 => ("ksm", 0, ""),
            11 => ("swapcache", 0, ""),
            12 => ("pagetable", 0, ""),
            13 => ("hwpoison", 0, ""),
            14 if self.known.is_some_and(Kernel::has_offline) => ("offline", 0, ""),
            15 if self.unaccepted
                && self.known.is_some_and(Kernel::has_unaccepted)
                && random.below(4) == 0 =>
            {
                ("unaccepted", 10, "")
            }
            _ => ("kernel", random.below(4), ""),
        }
    }
}
