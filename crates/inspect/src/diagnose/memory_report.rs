//! What the kernel's report of the OOM killer says: the limit of a memory cgroup, the zones and
//! their watermarks, and the order of the allocation (dump_header, mm/oom_kill.c; show_free_areas,
//! mm/show_mem.c; mem_cgroup_print_oom_meminfo, mm/memcontrol.c).

/// Tasks of a cgroup that are kept.
const MAX_TASKS: usize = 1024;

/// A memory cgroup at its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its path; empty if the report does not say it.
    pub path: String,
    /// Its memory and its limit, in KiB.
    pub usage: Option<u64>,
    pub limit: Option<u64>,
    /// PIDs of its processes.
    pub tasks: Vec<i32>,
}

impl Group {
    /// Reads a report; `None` if the machine itself had no memory.
    pub fn of(report: &[&str]) -> Option<Self> {
        let mut found = Self::default();
        let mut is_group = false;
        for line in report {
            if let Some(path) = line.strip_prefix("Memory cgroup stats for ") {
                is_group = true;
                found.path = path.trim_end().trim_end_matches(':').to_owned();
            } else if line.starts_with("oom-kill:constraint=CONSTRAINT_MEMCG")
                || line.starts_with("Memory cgroup out of memory: ")
            {
                is_group = true;
            } else if found.limit.is_none() && line.starts_with("memory: usage ") {
                found.usage = kib(line, "usage ");
                found.limit = kib(line, "limit ");
            } else if found.tasks.len() < MAX_TASKS {
                found.tasks.extend(pid(line));
            }
        }
        is_group.then_some(found)
    }
}

/// Formats as `memory cgroup /small has 16 MiB of its limit of 16 MiB`.
impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "memory cgroup {}", self.path)?;
        match (self.usage, self.limit) {
            (Some(usage), Some(limit)) => {
                write!(
                    f,
                    " has {} MiB of its limit of {} MiB",
                    usage >> 10,
                    limit >> 10
                )
            }
            _ => write!(f, " reached its limit"),
        }
    }
}

/// The PID of a line of the table of tasks: `[    100]     0   100 …`.
fn pid(line: &str) -> Option<i32> {
    let (pid, _) = line.strip_prefix('[')?.split_once(']')?;
    pid.trim().parse().ok()
}

/// The number of KiB behind a word.
fn kib(line: &str, word: &str) -> Option<u64> {
    let (_, rest) = line.split_once(word)?;
    let (number, _) = rest.split_once("kB")?;
    number.trim().parse().ok()
}

/// A zone and its watermarks, in KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    free: u64,
    min: u64,
    /// Free blocks by order, as printed: `14*4kB (UE) 11*8kB (UM) …`.
    blocks: Option<String>,
}

impl Zone {
    /// The zones of a report.
    pub fn all(report: &[&str]) -> Vec<Self> {
        let zones = report.iter().filter_map(|line| {
            let (name, _) = line.strip_prefix("Node ")?.split_once(" free:")?;
            let blocks = format!("Node {name}: ");
            let blocks = report.iter().find_map(|line| line.strip_prefix(&blocks));
            Some(Self {
                name: name.to_owned(),
                free: kib(line, " free:")?,
                min: kib(line, " min:")?,
                blocks: blocks.map(str::to_owned),
            })
        });
        zones.collect()
    }

    /// True if it has less than all may take but those that free memory.
    pub fn is_short(&self) -> bool {
        self.free < self.min
    }
}

/// Formats as `zone DMA32 of node 0 has 1556 KiB free, less than its minimum of 1696 KiB: …`.
impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (node, zone) = self.name.split_once(' ').unwrap_or(("", &self.name));
        let Self { free, min, .. } = self;
        write!(
            f,
            "zone {zone} of node {node} has {free} KiB free, less than its minimum of {min} KiB"
        )?;
        match &self.blocks {
            Some(blocks) => write!(f, ": {blocks}"),
            None => Ok(()),
        }
    }
}

/// The order of the allocation that failed: it needs 2 to the power of it pages in a row.
pub fn order(report: &[&str]) -> Option<u32> {
    let (_, rest) = report.first()?.split_once(" order=")?;
    rest.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_read_with_their_watermarks_and_blocks() {
        let report = [
            "dd invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=3, x",
            "Node 0 active_anon:2112kB inactive_anon:193692kB",
            "Node 0 DMA free:900kB boost:0kB min:132kB low:164kB high:196kB",
            "Node 0 DMA32 free:1556kB boost:0kB min:1696kB low:2120kB high:2544kB",
            "Node 0 DMA: 1*4kB (M) = 892kB",
            "Node 0 DMA32: 14*4kB (UE) 11*8kB (UM) = 1560kB",
        ];
        let zones = Zone::all(&report);
        let short: Vec<String> = zones
            .iter()
            .filter(|zone| zone.is_short())
            .map(Zone::to_string)
            .collect();
        assert_eq!(zones.len(), 2);
        assert_eq!(
            short,
            [
                "zone DMA32 of node 0 has 1556 KiB free, less than its minimum of 1696 KiB: \
              14*4kB (UE) 11*8kB (UM) = 1560kB"
            ]
        );
        assert_eq!(order(&report), Some(3));
        assert_eq!(Group::of(&report), None);
    }

    #[test]
    fn cgroups_are_read_with_their_limit_and_tasks() {
        let report = [
            "tail invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "memory: usage 16384kB, limit 16384kB, failcnt 21",
            "swap: usage 0kB, limit 9007199254740988kB, failcnt 0",
            "Memory cgroup stats for /small:",
            "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
            "[    102]     0   102     4918     4575    77824        0             0 tail",
        ];
        let group = Group::of(&report);
        let expected = Group {
            path: "/small".into(),
            usage: Some(16384),
            limit: Some(16384),
            tasks: vec![102],
        };
        assert_eq!(group, Some(expected));
        let text = group.map(|group| group.to_string());
        assert_eq!(
            text.as_deref(),
            Some("memory cgroup /small has 16 MiB of its limit of 16 MiB")
        );
    }
}
