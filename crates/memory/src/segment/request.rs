//! What is asked for.

use std::path::PathBuf;

use super::SegmentError;
use crate::Settings;

/// A kind of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A System V segment, with a key or without (IPC_PRIVATE).
    SystemV {
        /// The key, which no segment may have yet.
        key: Option<i32>,
    },
    /// POSIX shared memory: a file in /dev/shm.
    Posix {
        /// Its name, with or without the slash before it.
        name: String,
    },
    /// Shared memory that goes with its last descriptor.
    Memfd {
        /// What /proc shows as its name.
        name: String,
    },
    /// A new file: of tmpfs or hugetlbfs it is shared memory with a name, of others it has
    /// room on its disk.
    File {
        /// The path, where nothing is yet.
        path: PathBuf,
    },
    /// Private memory of this process.
    Anonymous,
}

/// Which pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// Transparent huge pages, as far as the system has some.
    Auto,
    /// Small pages.
    Never,
    /// Of the pool of pages of so many bytes (hugetlb); an error where it has too few.
    Pool(usize),
}

/// From which nodes of the machine memory comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numa {
    /// The caller's.
    Local,
    /// All, each helper's own.
    Spread,
    /// Page by page from these.
    Interleave(Vec<usize>),
    /// From these and no others.
    Bind(Vec<usize>),
}

impl Numa {
    /// Reads `local`, `spread`, `interleave=NODES` or `bind=NODES`, NODES as in `0-3,6`.
    pub fn parse(text: &str) -> Result<Self, SegmentError> {
        let wrong = || SegmentError::Wrong {
            what: format!("`{text}`"),
            expected: "local, spread, interleave=NODES or bind=NODES, with NODES as in 0-3,6"
                .into(),
        };
        match text.split_once('=') {
            None if text == "local" => Ok(Self::Local),
            None if text == "spread" => Ok(Self::Spread),
            Some(("interleave", nodes)) => Ok(Self::Interleave(list(nodes).ok_or_else(wrong)?)),
            Some(("bind", nodes)) => Ok(Self::Bind(list(nodes).ok_or_else(wrong)?)),
            _ => Err(wrong()),
        }
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> &[usize] {
        match self {
            Self::Local | Self::Spread => &[],
            Self::Interleave(nodes) | Self::Bind(nodes) => nodes,
        }
    }
}

/// Nodes beyond what any kernel has (CONFIG_NODES_SHIFT is at most 10).
pub(super) const MAX_NODES: usize = 1024;

fn list(text: &str) -> Option<Vec<usize>> {
    let mut nodes = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MAX_NODES {
            return None;
        }
        nodes.extend(first..=last);
    }
    nodes.sort_unstable();
    nodes.dedup();
    Some(nodes)
}

/// A segment that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Of which kind.
    pub kind: Kind,
    /// How large; grown to whole pages.
    pub bytes: usize,
    /// Who may use it, as for chmod(2). Not of anonymous memory and memfd.
    pub mode: u32,
    /// In which pages.
    pub huge: Huge,
    /// Whether its pages are made at once; otherwise only room is reserved, where the
    /// system can.
    pub populate: bool,
    /// Whether it is locked: by SHM_LOCK for System V, which lasts as long as it, else by
    /// mlock(2), which lasts as long as it is mapped.
    pub lock: bool,
    /// Objects that lie side by side as one, so that several processors give it back: 1 for an
    /// ordinary one. A System V segment cannot be striped, since one id is one object.
    pub stripes: usize,
    /// From which nodes.
    pub numa: Numa,
    /// How the work is shared.
    pub settings: Settings,
}

impl Request {
    /// Of `bytes`, made at once, of huge pages where there are some; for its owner.
    pub fn new(kind: Kind, bytes: usize) -> Self {
        Self {
            kind,
            bytes,
            mode: 0o600,
            huge: Huge::Auto,
            populate: true,
            lock: false,
            stripes: 1,
            numa: Numa::Local,
            settings: Settings::default(),
        }
    }

    /// What it is called in messages.
    pub(super) fn what(&self) -> String {
        match &self.kind {
            Kind::SystemV { key: Some(key) } => format!("System V segment with key {key:#x}"),
            Kind::SystemV { key: None } => "System V segment".into(),
            Kind::Posix { name } => format!("/{}", name.trim_start_matches('/')),
            Kind::Memfd { name } => format!("memfd {name}"),
            Kind::File { path } => path.display().to_string(),
            Kind::Anonymous => "anonymous memory".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_lists() {
        assert_eq!(Numa::parse("spread"), Ok(Numa::Spread));
        assert_eq!(
            Numa::parse("interleave=2,0-1,1"),
            Ok(Numa::Interleave(vec![0, 1, 2]))
        );
        assert_eq!(Numa::parse("bind=7"), Ok(Numa::Bind(vec![7])));
        for wrong in [
            "",
            "near",
            "bind",
            "bind=",
            "bind=3-1",
            "bind=1024",
            "local=0",
        ] {
            let error = Numa::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("NODES"), "{error}");
        }
    }
}
