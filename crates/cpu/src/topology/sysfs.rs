//! Topology from /sys/devices/system, or from a copy of it.

use std::fs;
use std::io;
use std::path::Path;

use super::{LOCAL_DISTANCE, MAX_CAPACITY, MAX_CPUS, MAX_NODES, Partition, Topology};
use crate::build::Architecture;
use crate::list::CpuList;
use crate::system::CpuError;

/// Maximum number of caches read for a CPU: L1 twice, L2, L3, L4, and spare.
const MAX_CACHES: usize = 16;
/// Maximum size of a file. Even a list of every second CPU of 65536 is shorter.
const MAX_BYTES: u64 = 1 << 20;

impl Topology {
    /// Reads the topology from `/sys/devices/system` or a copy: from `cpu`, and from `node` if
    /// there are several memory nodes. The kernel shows nothing about CPUs that are offline;
    /// each is treated as a core without siblings.
    ///
    /// # Errors
    /// The list of CPUs is missing, or a file contains something that no kernel writes.
    pub fn from_directory(directory: &Path) -> Result<Self, CpuError> {
        let files = Files { directory };
        let present = files.list("cpu/present")?;
        let count = present.iter().last().map_or(0, |last| last as usize + 1);
        if count == 0 || count > MAX_CPUS {
            return Err(CpuError::Senseless {
                path: directory.join("cpu/present"),
                reason: format!("{count} CPUs; expected 1 to {MAX_CPUS}"),
            });
        }
        let (nodes, distances) = files.nodes(count)?;
        // Whatever the hardware reports, the scheduler does not treat CPUs of two nodes as
        // sharing anything (topology_sane, arch/x86/kernel/smpboot.c; cpu_coregroup_mask,
        // drivers/base/arch_topology.c). A package may have several nodes.
        let part = |within_node: bool, sets: &Sets<'_>| {
            // The file of one CPU applies to all CPUs in it: large machines have many files.
            let mut first_of: Vec<Option<u32>> = vec![None; count];
            let mut keys = Vec::with_capacity(count);
            for cpu in 0..count {
                let first = match first_of.get(cpu).copied().flatten() {
                    Some(first) => first,
                    None => {
                        let set = sets(cpu)?.unwrap_or_default();
                        let first = set.iter().next().unwrap_or(cpu as u32);
                        for member in set.iter() {
                            if let Some(index) = first_of.get_mut(member as usize) {
                                index.get_or_insert(first);
                            }
                        }
                        first
                    }
                };
                let node = if within_node { nodes.set_of(cpu) } else { 0 };
                keys.push((first, node));
            }
            Ok::<_, CpuError>(Partition::by_key(keys))
        };
        let topology = |cpu: usize, names: [&str; 2]| {
            let lists = names.map(|name| format!("cpu/cpu{cpu}/topology/{name}"));
            files.first_of(&lists)
        };
        let whole_cores = part(true, &|cpu| {
            topology(cpu, ["core_cpus_list", "thread_siblings_list"])
        })?;
        let is_power = Architecture::of_directory(directory) == Some(Architecture::Power);
        let (cores, clusters) = if is_power {
            // A core of eight threads may be two small ones for the scheduler, each with its
            // own L1 (has_big_cores, arch/powerpc/kernel/smp.c). CPUs under one L2 are the
            // CACHE level.
            let in_core = |level| {
                let files = &files;
                move |cpu: usize| match files.cache(cpu, Some(level))? {
                    Some(cpus) => Ok(Some(cpus)),
                    None => topology(cpu, ["core_cpus_list", "thread_siblings_list"]),
                }
            };
            (part(true, &in_core(1))?, part(true, &in_core(2))?)
        } else {
            let clusters = part(true, &|cpu| {
                topology(cpu, ["cluster_cpus_list", "core_cpus_list"])
            })?;
            (whole_cores, clusters)
        };
        Ok(Self {
            // Coregroups, which are Power's MC level, are not in these files.
            caches: match is_power {
                true => clusters.clone(),
                false => part(true, &|cpu| match files.cache(cpu, None)? {
                    Some(cpus) => Ok(Some(cpus)),
                    None => topology(cpu, ["core_cpus_list", "thread_siblings_list"]),
                })?,
            },
            cores,
            clusters,
            has_caches: files.has_caches(count)?,
            packages: part(false, &|cpu| {
                topology(cpu, ["package_cpus_list", "core_siblings_list"])
            })?,
            nodes,
            distances,
            capacities: files.capacities(count)?,
        })
    }

    /// Returns the online CPUs in a directory as for [`Topology::from_directory`], and those
    /// isolated from all scheduler domains (`isolcpus=`). Without these files, all CPUs are
    /// online and none is isolated.
    ///
    /// # Errors
    /// A file contains something that no kernel writes.
    pub fn cpus_in(directory: &Path) -> Result<(CpuList, CpuList), CpuError> {
        let files = Files { directory };
        let online = match files.first_of(&["cpu/online".to_owned()])? {
            Some(online) => online,
            None => files.list("cpu/present")?,
        };
        let isolated = files.first_of(&["cpu/isolated".to_owned()])?;
        Ok((online, isolated.unwrap_or_default()))
    }
}

/// Function that reads the set of a CPU from a file.
type Sets<'a> = dyn Fn(usize) -> Result<Option<CpuList>, CpuError> + 'a;

struct Files<'a> {
    directory: &'a Path,
}

impl Files<'_> {
    fn read(&self, name: &str) -> Result<String, CpuError> {
        let path = self.directory.join(name);
        let read = || {
            let mut text = String::new();
            let file = fs::File::open(&path)?;
            io::Read::read_to_string(&mut io::Read::take(file, MAX_BYTES), &mut text)?;
            Ok(text)
        };
        read().map_err(|cause| CpuError::File {
            path: path.clone(),
            cause,
        })
    }

    /// Reads a file; returns `None` if the kernel does not show it.
    fn read_if_there(&self, name: &str) -> Result<Option<String>, CpuError> {
        match self.read(name) {
            Ok(text) => Ok(Some(text)),
            Err(CpuError::File { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn parse(&self, name: &str, text: &str) -> Result<CpuList, CpuError> {
        text.parse().map_err(|cause| CpuError::List {
            path: self.directory.join(name),
            cause,
        })
    }

    fn list(&self, name: &str) -> Result<CpuList, CpuError> {
        self.parse(name, &self.read(name)?)
    }

    fn first_of(&self, names: &[String]) -> Result<Option<CpuList>, CpuError> {
        for name in names {
            if let Some(text) = self.read_if_there(name)? {
                return self.parse(name, &text).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the capacity of each CPU; nothing if they are equal or not shown. A CPU without
    /// the file has the maximum, as the kernel assumes (cpu_scale, drivers/base/arch_topology.c).
    fn capacities(&self, count: usize) -> Result<Vec<u32>, CpuError> {
        let mut capacities = Vec::with_capacity(count);
        for cpu in 0..count {
            let name = format!("cpu/cpu{cpu}/cpu_capacity");
            let Some(text) = self.read_if_there(&name)? else {
                capacities.push(MAX_CAPACITY);
                continue;
            };
            match text.trim().parse() {
                Ok(capacity) if (1..=MAX_CAPACITY).contains(&capacity) => capacities.push(capacity),
                _ => {
                    let reason = format!("expected a capacity from 1 to {MAX_CAPACITY}");
                    return Err(self.senseless(&name, reason));
                }
            }
        }
        let first = capacities.first().copied();
        match capacities.iter().all(|capacity| Some(*capacity) == first) {
            true => Ok(Vec::new()),
            false => Ok(capacities),
        }
    }

    /// Returns true if the kernel shows the caches of any CPU. It shows none where firmware
    /// describes none, as for many virtual machines of arm64.
    fn has_caches(&self, count: usize) -> Result<bool, CpuError> {
        for cpu in 0..count {
            if self
                .read_if_there(&format!("cpu/cpu{cpu}/cache/index0/level"))?
                .is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the CPUs that share with a CPU its highest cache, or that of a level; `None` if
    /// the kernel shows none.
    fn cache(&self, cpu: usize, wanted: Option<u32>) -> Result<Option<CpuList>, CpuError> {
        let mut last: Option<(u32, String)> = None;
        for index in 0..MAX_CACHES {
            let name = format!("cpu/cpu{cpu}/cache/index{index}");
            let Some(level) = self.read_if_there(&format!("{name}/level"))? else {
                break;
            };
            let level = level.trim().parse().unwrap_or(0);
            if wanted.is_some_and(|wanted| wanted != level) {
                continue;
            }
            if last.as_ref().is_none_or(|(highest, _)| level >= *highest) {
                last = Some((level, format!("{name}/shared_cpu_list")));
            }
        }
        match last {
            Some((_, name)) => self.first_of(&[name]),
            None => Ok(None),
        }
    }

    /// Returns the nodes that have CPUs, and the distances between them.
    fn nodes(&self, cpus: usize) -> Result<(Partition, Vec<Vec<u32>>), CpuError> {
        let one = || {
            let partition = Partition::by_key((0..cpus).map(|_| 0));
            (partition, vec![vec![LOCAL_DISTANCE]])
        };
        let Some(online) = self.read_if_there("node/online")? else {
            return Ok(one());
        };
        let online = self.parse("node/online", &online)?;
        if online.len() > MAX_NODES {
            return Err(self.senseless("node/online", format!("more than {MAX_NODES} nodes")));
        }
        let mut of = vec![None; cpus];
        let mut with_cpus = Vec::new();
        for (index, node) in online.iter().enumerate() {
            let list = self.list(&format!("node/node{node}/cpulist"))?;
            for cpu in list.iter() {
                if let Some(node_of) = of.get_mut(cpu as usize) {
                    *node_of = Some(with_cpus.len() as u32);
                }
            }
            if !list.is_empty() {
                with_cpus.push((index, node));
            }
        }
        if with_cpus.is_empty() {
            return Ok(one());
        }
        let mut distances = Vec::new();
        for (_, node) in &with_cpus {
            let name = format!("node/node{node}/distance");
            let row: Result<Vec<u32>, _> = self
                .read(&name)?
                .split_ascii_whitespace()
                .map(str::parse)
                .collect();
            let row = row.unwrap_or_default();
            let chosen: Option<Vec<u32>> = with_cpus
                .iter()
                .map(|(index, _)| row.get(*index).copied().filter(|far| *far <= 255))
                .collect();
            let expected = || {
                let nodes = online.len();
                self.senseless(&name, format!("expected {nodes} distances up to 255"))
            };
            distances.push(chosen.ok_or_else(expected)?);
        }
        // No node lists an offline CPU; it is assigned to the first node.
        let of = of.into_iter().map(|node| node.unwrap_or(0)).collect();
        Ok((Partition::new(of, with_cpus.len()), distances))
    }

    fn senseless(&self, name: &str, reason: String) -> CpuError {
        CpuError::Senseless {
            path: self.directory.join(name),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates two nodes of two cores with two threads; CPU 7 is offline.
    fn machine(root: &Path) {
        write(root, "cpu/present", "0-7\n");
        for cpu in 0..7 {
            let core = cpu / 2 * 2;
            let package = if cpu < 4 { "0-3" } else { "4-6" };
            let directory = format!("cpu/cpu{cpu}");
            let both = format!("{core}-{}\n", core + 1);
            write(root, &format!("{directory}/topology/core_cpus_list"), &both);
            write(
                root,
                &format!("{directory}/topology/package_cpus_list"),
                package,
            );
            write(root, &format!("{directory}/cache/index0/level"), "1\n");
            write(
                root,
                &format!("{directory}/cache/index0/shared_cpu_list"),
                &both,
            );
            write(root, &format!("{directory}/cache/index1/level"), "3\n");
            write(
                root,
                &format!("{directory}/cache/index1/shared_cpu_list"),
                package,
            );
        }
        write(root, "node/online", "0,2-3\n");
        for (node, cpus, distance) in [
            (0, "0-3", "10 30 20\n"),
            (2, "\n", "30 10 40\n"),
            (3, "4-6", "20 40 10\n"),
        ] {
            write(root, &format!("node/node{node}/cpulist"), cpus);
            write(root, &format!("node/node{node}/distance"), distance);
        }
    }

    #[test]
    fn copied_directory_is_read() {
        let directory = tempfile::tempdir().unwrap();
        machine(directory.path());
        let machine = Topology::from_directory(directory.path()).unwrap();
        assert_eq!(machine.cpu_count(), 8);
        assert_eq!(machine.cores.set_of(0), machine.cores.set_of(1));
        assert_ne!(machine.cores.set_of(6), machine.cores.set_of(7));
        assert_eq!(machine.caches.members(0).unwrap().count_ones(..), 4);
        assert_eq!(machine.nodes.set_of(5), 1);
        assert_eq!(machine.distances, [[10, 20], [20, 10]]);
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        let cpus = || Topology::cpus_in(directory.path()).unwrap();
        assert_eq!(cpus(), (list("0-7"), CpuList::default()));
        write(directory.path(), "cpu/online", "0-6\n");
        write(directory.path(), "cpu/isolated", "2,5\n");
        assert_eq!(cpus(), (list("0-6"), list("2,5")));
    }

    #[test]
    fn cache_across_two_nodes_is_split() {
        let directory = tempfile::tempdir().unwrap();
        machine(directory.path());
        for cpu in 0..7 {
            for list in ["cache/index1/shared_cpu_list", "topology/package_cpus_list"] {
                write(directory.path(), &format!("cpu/cpu{cpu}/{list}"), "0-6\n");
            }
        }
        let machine = Topology::from_directory(directory.path()).unwrap();
        assert_eq!(machine.packages.set_of(0), machine.packages.set_of(6));
        assert_eq!(machine.caches.set_of(0), machine.caches.set_of(3));
        assert_ne!(machine.caches.set_of(0), machine.caches.set_of(4));
        assert_eq!(machine.caches.set_of(4), machine.caches.set_of(6));
    }

    #[test]
    fn error_names_a_missing_or_invalid_file() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let error = || Topology::from_directory(root).unwrap_err().to_string();
        assert!(error().contains("cpu/present"), "{}", error());
        machine(root);
        write(root, "node/node3/distance", "20 10\n");
        assert!(
            error().contains("node3/distance: expected 3"),
            "{}",
            error()
        );
        write(root, "node/node3/distance", "20 40 10\n");
        write(root, "cpu/cpu2/topology/core_cpus_list", "two");
        assert!(
            error().contains("cpu2/topology/core_cpus_list"),
            "{}",
            error()
        );
        write(root, "cpu/present", "0-99999");
        assert!(error().contains("too large"), "{}", error());
    }

    #[test]
    fn running_machine_is_read() {
        let machine = Topology::from_directory(Path::new("/sys/devices/system")).unwrap();
        assert!(machine.cpu_count() >= 1);
    }
}
