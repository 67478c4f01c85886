//! The physical memory map of the running kernel: /proc/iomem.

use anyhow::{Context, ensure};

/// A line of /proc/iomem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// 0 for a resource that lies in no other.
    pub depth: usize,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub last: u64,
    /// Name, such as `System RAM`.
    pub name: String,
}

/// All lines of /proc/iomem, in order: a resource precedes those inside it.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    /// The lines.
    pub resources: Vec<Resource>,
}

impl MemoryMap {
    /// Parses the text of /proc/iomem, such as:
    ///
    /// ```text
    /// 00100000-7ffdffff : System RAM
    ///   01000000-01ffffff : Kernel code
    /// ```
    ///
    /// # Errors
    /// A line has another form, or the kernel hides the addresses.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut resources = Vec::new();
        for line in text.lines() {
            resources.push(
                parse_line(line)
                    .with_context(|| format!("/proc/iomem: cannot understand {line:?}"))?,
            );
        }
        // The kernel prints zeros to readers without CAP_SYS_ADMIN (kernel/resource.c, r_show()).
        let hidden = resources.iter().all(|resource| resource.last == 0);
        ensure!(
            !hidden,
            "/proc/iomem: shows no addresses; this requires root"
        );
        Ok(Self { resources })
    }

    /// The top-level resources of this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Resource> {
        self.resources
            .iter()
            .filter(move |resource| resource.depth == 0 && resource.name == name)
    }

    /// Bytes of RAM that the kernel uses.
    pub fn ram(&self) -> u64 {
        self.named("System RAM")
            .map(|range| (range.last - range.start).saturating_add(1))
            .fold(0, u64::saturating_add)
    }
}

fn parse_line(line: &str) -> Option<Resource> {
    let text = line.trim_start_matches(' ');
    let depth = (line.len() - text.len()) / 2;
    let (range, name) = text.split_once(" : ")?;
    let (start, last) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let last = u64::from_str_radix(last, 16).ok()?;
    (start <= last).then(|| Resource {
        depth,
        start,
        last,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn nesting_and_sizes_are_those_of_the_text() {
        let map = MemoryMap::parse(
            "00001000-0009fbff : System RAM\n00100000-7ffdffff : System RAM\n  01000000-01ffffff : Kernel code\n",
        )
        .unwrap();
        let depths: Vec<_> = map.resources.iter().map(|r| r.depth).collect();
        assert_eq!(depths, [0, 0, 1]);
        assert_eq!(map.ram(), 0x9_ec00 + 0x7fee_0000);
    }

    #[test]
    fn hidden_addresses_and_foreign_lines_are_errors() {
        let hidden = MemoryMap::parse("00000000-00000000 : System RAM\n").unwrap_err();
        assert!(hidden.to_string().contains("requires root"), "{hidden}");
        assert!(MemoryMap::parse("System RAM\n").is_err());
        assert!(MemoryMap::parse("2000-1000 : System RAM\n").is_err());
    }
}
