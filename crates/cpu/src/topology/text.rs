//! Topology from a line of text.

use super::{LOCAL_DISTANCE, MAX_CAPACITY, MAX_CPUS, MAX_NODES, Partition, Topology};

/// Error in the description of a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid topology {text:?}: {reason}; expected a description such as `sockets=2 cores=4 threads=2`"
)]
pub struct TopologyTextError {
    text: String,
    reason: String,
}

/// Parsed description, with defaults for omitted words.
struct Description {
    sockets: usize,
    /// Memory nodes per socket.
    nodes: usize,
    /// Last-level caches per node.
    caches: usize,
    /// Clusters per cache; 0: each core is a cluster.
    clusters: usize,
    /// Cores per socket.
    cores: usize,
    threads: usize,
    /// Distance between nodes of one socket; `far` is that between nodes of two.
    near: u32,
    far: u32,
    /// Rows of the distance table, if it is given.
    distances: Option<Vec<Vec<u32>>>,
    /// Capacities of the cores of a package, in order.
    capacities: Vec<(usize, u32)>,
    /// True if the threads of a core have consecutive numbers.
    adjacent: bool,
}

impl Topology {
    /// Creates a regular machine from words such as `sockets=2 cores=4 threads=2`:
    ///
    /// | word | meaning | default |
    /// |---|---|---|
    /// | `sockets=` | packages | 1 |
    /// | `cores=` | cores per package | 1 |
    /// | `threads=` | hardware threads per core | 1 |
    /// | `numa=` | memory nodes per package | 1 |
    /// | `caches=` | last-level caches per memory node | 1 |
    /// | `clusters=` | clusters per cache; 0: each core is one | 0 |
    /// | `near=`, `far=` | distance between nodes of one package, of two packages | 12, 20 |
    /// | `distances=` | table of all distances: `10,20;20,10` | from `near` and `far` |
    /// | `capacities=` | capacities of a package's cores in order: `4*1024,4*446` | all equal |
    /// | `numbering=` | `threads`: the threads of a core have consecutive numbers; `cores`: the first thread of each core comes first | `threads` |
    ///
    /// # Errors
    /// An unknown word, parts that do not divide evenly, or a machine larger than [`MAX_CPUS`] CPUs
    /// or [`MAX_NODES`] nodes.
    pub fn from_text(text: &str) -> Result<Self, TopologyTextError> {
        let wrong = |reason: String| TopologyTextError {
            text: text.chars().take(120).collect(),
            reason,
        };
        let description = describe(text).map_err(wrong)?;
        build(&description).map_err(wrong)
    }
}

fn describe(text: &str) -> Result<Description, String> {
    let mut description = Description {
        sockets: 1,
        nodes: 1,
        caches: 1,
        clusters: 0,
        cores: 1,
        threads: 1,
        near: 12,
        far: 20,
        distances: None,
        capacities: Vec::new(),
        adjacent: true,
    };
    for word in text.split_ascii_whitespace() {
        let (key, value) = word
            .split_once('=')
            .ok_or(format!("{word:?} has no value"))?;
        let count = || match value.parse::<usize>() {
            Ok(count) if (1..=MAX_CPUS).contains(&count) => Ok(count),
            _ => Err(format!("{word:?} is not a number from 1 to {MAX_CPUS}")),
        };
        match key {
            "sockets" => description.sockets = count()?,
            "cores" => description.cores = count()?,
            "threads" => description.threads = count()?,
            "numa" => description.nodes = count()?,
            "caches" => description.caches = count()?,
            "clusters" if value == "0" => description.clusters = 0,
            "clusters" => description.clusters = count()?,
            "near" => description.near = distance(value)?,
            "far" => description.far = distance(value)?,
            "distances" => description.distances = Some(rows(value)?),
            "capacities" => description.capacities = capacity_list(value)?,
            "numbering" if value == "threads" => description.adjacent = true,
            "numbering" if value == "cores" => description.adjacent = false,
            "numbering" => return Err(format!("{word:?} is neither `threads` nor `cores`")),
            _ => return Err(format!("unknown word {key:?}")),
        }
    }
    Ok(description)
}

/// Parses capacities such as `4*1024,4*446`.
fn capacity_list(value: &str) -> Result<Vec<(usize, u32)>, String> {
    let part = |text: &str| {
        let (count, capacity) = text.split_once('*').unwrap_or(("1", text));
        let count = count
            .parse()
            .ok()
            .filter(|count| (1..=MAX_CPUS).contains(count));
        let capacity = capacity.parse().ok();
        let capacity = capacity.filter(|capacity| (1..=MAX_CAPACITY).contains(capacity));
        count.zip(capacity).ok_or_else(|| {
            format!("{text:?} is not a capacity up to {MAX_CAPACITY}, or COUNT*CAPACITY")
        })
    };
    value.split(',').map(part).collect()
}

/// Returns the capacity of each CPU; nothing if all are equal.
fn capacities(
    description: &Description,
    cpus: usize,
    core_of: impl Fn(usize) -> usize,
) -> Result<Vec<u32>, String> {
    let of_package: Vec<u32> = description
        .capacities
        .iter()
        .flat_map(|(count, capacity)| std::iter::repeat_n(*capacity, *count))
        .take(MAX_CPUS + 1)
        .collect();
    if of_package.is_empty() {
        return Ok(of_package);
    }
    if of_package.len() != description.cores {
        let (given, cores) = (of_package.len(), description.cores);
        return Err(format!("{given} capacities for {cores} cores of a package"));
    }
    let of = |cpu| of_package.get(core_of(cpu) % description.cores).copied();
    Ok((0..cpus).filter_map(of).collect())
}

fn rows(value: &str) -> Result<Vec<Vec<u32>>, String> {
    let row = |row: &str| row.split(',').map(distance).collect();
    value.split(';').map(row).collect()
}

/// Parses a distance, which is a byte and not below that of a node to itself (node_distance,
/// ACPI's SLIT).
fn distance(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(distance) if (LOCAL_DISTANCE..=255).contains(&distance) => Ok(distance),
        _ => Err(format!(
            "{text:?} is not a distance from {LOCAL_DISTANCE} to 255"
        )),
    }
}

fn build(description: &Description) -> Result<Topology, String> {
    let Description {
        sockets,
        nodes,
        caches,
        cores,
        threads,
        ..
    } = *description;
    let all_cores = sockets.saturating_mul(cores);
    let cpus = all_cores.saturating_mul(threads);
    let all_nodes = sockets.saturating_mul(nodes);
    if cpus > MAX_CPUS {
        return Err(format!("more than {MAX_CPUS} CPUs"));
    }
    if all_nodes > MAX_NODES {
        return Err(format!("more than {MAX_NODES} memory nodes"));
    }
    let part = |whole: usize, parts: usize, what: &str| {
        if parts > 0 && whole.is_multiple_of(parts) {
            return Ok(whole / parts);
        }
        Err(format!(
            "{whole} cores cannot be divided evenly into {parts} {what}"
        ))
    };
    let node_cores = part(cores, nodes, "memory nodes")?;
    let cache_cores = part(node_cores, caches, "caches")?;
    let cluster_cores = match description.clusters {
        0 => 1,
        clusters => part(cache_cores, clusters, "clusters")?,
    };
    let core_of = |cpu: usize| match description.adjacent {
        true => cpu / threads,
        false => cpu % all_cores,
    };
    let by = |size: usize| Partition::by_key((0..cpus).map(|cpu| core_of(cpu) / size));
    let distances = match &description.distances {
        Some(rows) if rows.len() == all_nodes && rows.iter().all(|row| row.len() == all_nodes) => {
            rows.clone()
        }
        Some(_) => {
            return Err(format!(
                "`distances` must have {all_nodes} rows of {all_nodes} numbers"
            ));
        }
        None => {
            let between = |from: usize, to: usize| match (from == to, from / nodes == to / nodes) {
                (true, _) => LOCAL_DISTANCE,
                (_, true) => description.near,
                _ => description.far,
            };
            let row = |from| (0..all_nodes).map(|to| between(from, to)).collect();
            (0..all_nodes).map(row).collect()
        }
    };
    Ok(Topology {
        cores: by(1),
        clusters: by(cluster_cores),
        caches: by(cache_cores),
        has_caches: true,
        packages: by(cores),
        nodes: by(node_cores),
        distances,
        capacities: capacities(description, cpus, core_of)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(partition: &Partition, cpu: usize) -> Vec<usize> {
        let set = partition.members(partition.set_of(cpu)).unwrap();
        set.ones().collect()
    }

    #[test]
    fn regular_machine_is_divided_evenly() {
        let machine = Topology::from_text("sockets=2 cores=4 threads=2 numa=2").unwrap();
        assert_eq!(machine.cpu_count(), 16);
        assert_eq!(members(&machine.cores, 3), [2, 3]);
        assert_eq!(members(&machine.nodes, 5), [4, 5, 6, 7]);
        assert_eq!(members(&machine.packages, 9), (8..16).collect::<Vec<_>>());
        assert_eq!(machine.distances[0], [10, 12, 20, 20]);
        let machine = Topology::from_text("cores=4 threads=2 numbering=cores caches=2").unwrap();
        assert_eq!(members(&machine.cores, 1), [1, 5]);
        assert_eq!(members(&machine.caches, 1), [0, 1, 4, 5]);
    }

    #[test]
    fn invalid_descriptions_are_rejected_with_the_reason() {
        for (text, reason) in [
            ("sockets", "no value"),
            ("sockets=0", "not a number"),
            ("cores=3 numa=2", "evenly"),
            ("cores=16384 threads=2", "more than"),
            ("sockets=2 distances=10,20", "rows"),
            ("far=300", "distance"),
            ("speed=3", "unknown word"),
            ("numbering=random", "neither"),
            ("capacities=big", "not a capacity"),
            ("capacities=2000", "not a capacity"),
            ("cores=4 capacities=2*1024,446", "3 capacities for 4 cores"),
        ] {
            let error = Topology::from_text(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
