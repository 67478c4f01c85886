//! `bigiron cpu online`.

use std::str::FromStr;

use anyhow::bail;
use bigiron_cpu::hotplug::Plan;
use bigiron_cpu::{CpuList, CpuListError};
use clap::Args;

use super::hotplug::{self, HotplugArguments};

/// `bigiron cpu online`.
#[derive(Debug, Args)]
pub struct OnlineArguments {
    /// CPUs to bring online, such as 4-7,12, or all
    #[arg(value_name = "CPUS")]
    cpus: Selection,
    /// Hotplug options.
    #[command(flatten)]
    how: HotplugArguments,
}

#[derive(Clone, Debug)]
enum Selection {
    All,
    Some(CpuList),
}

impl FromStr for Selection {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        match text {
            "all" => Ok(Self::All),
            list => list.parse().map(Self::Some),
        }
    }
}

/// Brings CPUs online.
pub fn run(arguments: &OnlineArguments) -> anyhow::Result<()> {
    let asked = match &arguments.cpus {
        Selection::All => None,
        Selection::Some(list) if list.is_empty() => {
            bail!("no CPUs are named; expected a list such as 4-7,12, or `all`");
        }
        Selection::Some(list) => Some(list),
    };
    let name = asked.map_or("all".to_owned(), CpuList::to_string);
    let command = format!("bigiron cpu online {name}");
    hotplug::run(&arguments.how, command, |root, cpus| {
        Plan::online(root, cpus, asked.unwrap_or(&cpus.offline))
    })
}
