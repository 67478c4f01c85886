//! Random valid texts.

use std::fmt::Write;

use crate::kernels::Kernel;
use crate::memory::SplitMix;

/// Frames below this one are named; those above are left to the builder.
const NAMED: u64 = 0x1000;
const RAM_END: u64 = 0x1fff;
/// Page frame of some memory above 4 GiB, in another section and zone.
const HIGH: u64 = 0x10_0000;

/// Returns a varied, valid text for a kernel of [`presets`](crate::presets), always the same
/// for the same seed. An unknown kernel is written to the text, and is an error only when the
/// text is parsed.
pub fn random_machine(seed: u64, kernel: &str) -> String {
    let mut random = SplitMix::new(seed);
    let mut text = String::new();
    let known = Kernel::named(kernel);
    let leaf = ["2m", "4k"][random.below(2) as usize];
    settings(&mut text, &mut random, kernel, leaf);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "ram 0x0-0x9f 0x100-{RAM_END:#x}");
    let high = random.below(2) * (0x100 + random.below(0x700));
    if high > 0 {
        let _ = writeln!(text, "ram {HIGH:#x}-{:#x}", HIGH + high - 1);
    }
    if random.below(3) == 0 {
        let split = 0x400 + random.below(0x1000);
        let _ = writeln!(text, "node 0 0x0-{:#x}", split - 1);
        let _ = writeln!(text, "node 1 {split:#x}-{:#x}", HIGH + 0xfff);
    }
    let hvo = leaf == "4k" && known.is_some_and(|kernel| kernel.since(5, 18));
    let words = Words { known, hvo };
    runs(&mut text, &mut random, words, 0x100..NAMED);
    if high > 0 {
        runs(&mut text, &mut random, words, HIGH..HIGH + high);
    }
    text
}

fn settings(text: &mut String, random: &mut SplitMix, kernel: &str, leaf: &str) {
    let _ = write!(text, "kernel {kernel} vmemmap_leaf={leaf}");
    let _ = write!(text, " levels={}", 4 + random.below(2));
    let _ = write!(text, " kaslr={:#x}", random.below(0x100) << 21);
    let _ = write!(text, " direct={}", pick(random, &["4k", "2m", "1g"]));
    let _ = write!(text, " image_leaf={}", pick(random, &["4k", "2m"]));
    let _ = write!(text, " mem_section={}", pick(random, &["16", "32"]));
    let _ = write!(text, " cpus={}", 1 + random.below(4));
    if Kernel::named(kernel).is_some_and(|kernel| kernel.since(5, 1)) && random.below(4) == 0 {
        let _ = write!(text, " sme=47");
    }
    let _ = writeln!(text);
}

fn pick<'a>(random: &mut SplitMix, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

#[derive(Clone, Copy)]
struct Words {
    known: Option<&'static Kernel>,
    hvo: bool,
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
            15 if self.known.is_some_and(Kernel::has_unaccepted) && random.below(4) == 0 => {
                ("unaccepted", 10, "")
            }
            _ => ("kernel", random.below(4), ""),
        }
    }
}
