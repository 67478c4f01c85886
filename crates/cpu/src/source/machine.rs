//! Domains that a kernel would build on a described machine.

use super::{DomainSource, SourceError};
use crate::build::{Rules, build_apart, insane};
use crate::list::CpuList;
use crate::topology::Topology;
use crate::tree::DomainTree;

/// Described machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Description, for the user.
    pub description: String,
    /// Topology of the CPUs.
    pub topology: Topology,
    /// Online CPUs.
    pub online: CpuList,
    /// CPUs isolated from all domains (`isolcpus=`).
    pub isolated: CpuList,
    /// Rules of the kernel that builds the domains.
    pub rules: Rules,
}

impl DomainSource for Machine {
    fn read(&self) -> Result<DomainTree, SourceError> {
        let chains = build_apart(&self.topology, &self.online, &self.isolated, &self.rules);
        let online = |(cpu, chain): (usize, _)| {
            let cpu = cpu as u32;
            self.online.contains(cpu).then_some((cpu, chain))
        };
        let insane = insane(&self.topology, &self.online, &self.rules);
        Ok(DomainTree {
            source: self.description.clone(),
            cpus: chains.into_iter().enumerate().filter_map(online).collect(),
            warnings: insane.iter().map(ToString::to_string).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn online_cpus_have_domains() {
        let machine = Machine {
            description: "four".into(),
            topology: Topology::from_text("cores=2 threads=2").unwrap(),
            online: "0-2,9".parse().unwrap(),
            isolated: CpuList::default(),
            rules: Rules::LINUX_6_12,
        };
        let tree = machine.read().unwrap();
        assert_eq!(tree.cpus.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(tree.forest(9).roots[0].name, "MC");
    }
}
