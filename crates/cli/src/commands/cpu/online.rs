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
    /// CPUs, such as 4-7,12, or all
    #[arg(value_name = "CPUS")]
    cpus: Which,
    /// How.
    #[command(flatten)]
    how: HotplugArguments,
}

#[derive(Clone, Debug)]
enum Which {
    All,
    Some(CpuList),
}

impl FromStr for Which {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        match text {
            "all" => Ok(Self::All),
            list => list.parse().map(Self::Some),
        }
    }
}

/// Brings CPUs up.
pub fn run(arguments: &OnlineArguments) -> anyhow::Result<()> {
    let asked = match &arguments.cpus {
        Which::All => None,
        Which::Some(list) if list.is_empty() => {
            bail!("no CPUs are named; expected a list such as 4-7,12, or `all`");
        }
        Which::Some(list) => Some(list),
    };
    let name = asked.map_or("all".to_owned(), CpuList::to_string);
    let command = format!("bigiron cpu online {name}");
    hotplug::run(&arguments.how, command, |place, cpus| {
        Plan::online(place, cpus, asked.unwrap_or(&cpus.offline))
    })
}
