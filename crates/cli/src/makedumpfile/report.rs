//! The tables of `--show-stats` and `--mem-usage`, in makedumpfile's format.

use std::fmt::Write as _;

use bigiron_dump::{Phase, Summary};

use super::progress;

/// Pages by kind, as makedumpfile counts them.
struct Counts {
    /// Page frames up to the last one.
    total: u64,
    /// Page frames of RAM.
    original: u64,
    zero: u64,
    excluded: u64,
}

impl Counts {
    fn of(summary: &Summary) -> Self {
        let left_out = &summary.excluded;
        let zero = if summary.zero_excluded {
            summary.zero
        } else {
            0
        };
        Self {
            total: summary.end_frame.0,
            // Memory beyond the last struct page is not counted.
            original: summary.ram.saturating_sub(left_out.device),
            zero,
            excluded: left_out.total() - left_out.device + zero,
        }
    }

    fn remaining(&self) -> u64 {
        self.original.saturating_sub(self.excluded)
    }
}

/// Returns the output of `--show-stats`.
pub fn statistics(summary: &Summary) -> String {
    let (counts, left_out) = (Counts::of(summary), &summary.excluded);
    let mut text = String::new();
    for phase in &summary.phases {
        let known = [Phase::Filtering, Phase::Copying];
        let found = known.into_iter().find(|known| known.name() == phase.name);
        if let Some(name) = found.and_then(progress::name) {
            let seconds = phase.time.as_secs_f64();
            let _ = writeln!(text, "STEP [{name:<27}] : {seconds:.6} seconds");
        }
    }
    let mut line = |name: &str, count: u64| {
        let _ = writeln!(text, "{name}: 0x{count:016x}");
    };
    line("\nOriginal pages  ", counts.original);
    line("  Excluded pages   ", counts.excluded);
    let in_elf = summary.in_elf;
    if let Some(in_elf) = in_elf {
        line(
            "     in ELF format ",
            counts.original.saturating_sub(in_elf),
        );
    }
    line("    Pages filled with zero  ", counts.zero);
    line("    Non-private cache pages ", left_out.cache);
    line("    Private cache pages     ", left_out.cache_private);
    line("    User process data pages ", left_out.user);
    line("    Free pages              ", left_out.free);
    line("    Hwpoison pages          ", left_out.hw_poison);
    line("    Offline pages           ", left_out.offline);
    // Kinds that makedumpfile 1.7.2 does not have.
    if left_out.unaccepted > 0 {
        line("    Unaccepted pages        ", left_out.unaccepted);
    }
    if left_out.absent > 0 {
        line("    Pages not in VMCORE     ", left_out.absent);
    }
    if left_out.owner > 0 {
        line("    Other domains' pages    ", left_out.owner);
    }
    if left_out.struct_pages > 0 {
        line("    Struct pages            ", left_out.struct_pages);
    }
    if left_out.rules > 0 {
        line("    Extension filter pages  ", left_out.rules);
    }
    line("  Remaining pages  ", counts.remaining());
    if let Some(in_elf) = in_elf {
        line("     in ELF format ", in_elf);
    }
    let stored = in_elf.unwrap_or(counts.remaining());
    if let Some(percent) = (stored * 100).checked_div(counts.original) {
        let _ = writeln!(text, "  (The number of pages is reduced to {percent}%.)");
    }
    let hole = counts.total.saturating_sub(counts.original);
    let _ = writeln!(text, "Memory Hole     : 0x{hole:016x}");
    let _ = writeln!(text, "{}", "-".repeat(50));
    let _ = writeln!(text, "Total pages     : 0x{:016x}", counts.total);
    let _ = writeln!(text, "Write bytes     : {}\n", summary.bytes_out);
    let (hits, misses) = (summary.cache.hits, summary.cache.misses);
    let _ = write!(text, "Cache hit: {hits}, miss: {misses}");
    if hits + misses > 0 {
        let rate = 100.0 * hits as f64 / (hits + misses) as f64;
        let _ = write!(text, ", hit rate: {rate:.1}%");
    }
    text.push_str("\n\n");
    text
}

/// Returns the output of `--mem-usage`.
pub fn usage(summary: &Summary) -> String {
    let (counts, left_out) = (Counts::of(summary), &summary.excluded);
    let free = left_out.free + left_out.unaccepted;
    let mut text = format!(
        "\nTYPE\t\tPAGES\t\t\tEXCLUDABLE\tDESCRIPTION\n{}\n",
        "-".repeat(70)
    );
    for (name, count, excludable, description) in [
        ("ZERO\t", counts.zero, "yes", "Pages filled with zero"),
        (
            "NON_PRI_CACHE",
            left_out.cache,
            "yes",
            "Cache pages without private flag",
        ),
        (
            "PRI_CACHE",
            left_out.cache_private,
            "yes",
            "Cache pages with private flag",
        ),
        ("USER\t", left_out.user, "yes", "User process pages"),
        ("FREE\t", free, "yes", "Free pages"),
        (
            "KERN_DATA",
            counts.remaining(),
            "no",
            "Dumpable kernel data ",
        ),
    ] {
        let _ = writeln!(text, "{name}\t{count:<16}\t{excludable}\t\t{description}");
    }
    let (size, pages) = (summary.page_size, counts.original);
    let _ = writeln!(text, "\npage size:\t\t{size:<16}");
    let _ = writeln!(text, "Total pages on system:\t{pages:<16}");
    let _ = writeln!(text, "Total size on system:\t{:<16} Byte", pages * size);
    text
}
