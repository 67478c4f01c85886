//! Description of a segment to create.

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
        /// Its name, with or without a leading slash.
        name: String,
    },
    /// Shared memory that is freed with its last descriptor.
    Memfd {
        /// Its name in /proc.
        name: String,
    },
    /// A new file. On tmpfs or hugetlbfs it is shared memory with a name; on other file systems
    /// its space on disk is reserved.
    File {
        /// The path, which must not exist yet.
        path: PathBuf,
    },
    /// Private memory of this process.
    Anonymous,
}

/// Page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// Transparent huge pages, as far as the system has some.
    Auto,
    /// Small pages.
    Never,
    /// Pages of this many bytes from the pool for this size (hugetlb); an error if it has too
    /// few.
    Pool(usize),
}

/// Placement of memory on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numa {
    /// The caller's node.
    Local,
    /// All nodes, each helper's own.
    Spread,
    /// These nodes, page by page.
    Interleave(Vec<usize>),
    /// These nodes only.
    Bind(Vec<usize>),
}

impl Numa {
    /// Parses `local`, `spread`, `interleave=NODES` or `bind=NODES`, with NODES such as
    /// `0-3,6`.
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

    /// Returns the nodes that the placement names.
    pub fn nodes(&self) -> &[usize] {
        match self {
            Self::Local | Self::Spread => &[],
            Self::Interleave(nodes) | Self::Bind(nodes) => nodes,
        }
    }
}

/// Maximum number of nodes of any kernel (CONFIG_NODES_SHIFT is at most 10).
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

/// A segment to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind of memory.
    pub kind: Kind,
    /// Size in bytes; rounded up to whole pages.
    pub bytes: usize,
    /// Permissions, as for chmod(2). Not used for anonymous memory and memfd.
    pub mode: u32,
    /// Page size.
    pub huge: Huge,
    /// True if the memory is populated at once; otherwise its space is only reserved, if the
    /// system supports that.
    pub populate: bool,
    /// True if the memory is locked: System V by SHM_LOCK, for as long as the segment exists;
    /// other memory by mlock(2), for as long as it is mapped.
    pub lock: bool,
    /// Number of objects that together form the segment, so that several processors can free
    /// it: 1 for an ordinary segment. A System V segment cannot be striped, since one id is one
    /// object.
    pub stripes: usize,
    /// Placement on nodes.
    pub numa: Numa,
    /// Settings of the engine.
    pub settings: Settings,
}

impl Request {
    /// Creates a request for `bytes`, populated at once, in huge pages if available, accessible
    /// to its owner.
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

    /// Returns the name of the memory in messages.
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
