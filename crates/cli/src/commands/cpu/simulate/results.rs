//! The results of `bigiron cpu simulate`, for text and JSON.

#[cfg(feature = "hotplug")]
use bigiron_cpu::simulate::Origin;
use bigiron_cpu::simulate::{Answer, Costs, Growth, KernelName, KnownSizes, Published};
use serde::Serialize;

/// Origins of the costs, for programs.
#[cfg(feature = "hotplug")]
pub type Origins = Vec<Origin>;
#[cfg(not(feature = "hotplug"))]
pub type Origins = Vec<()>;

/// Costs, and the machine sizes for which they are known.
#[derive(Serialize)]
pub struct Basis {
    /// Description of their origin.
    #[serde(rename = "costs_of")]
    pub of: String,
    pub costs: Costs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Origins,
    #[serde(skip)]
    pub known: KnownSizes,
}

/// Complete output for one machine.
#[derive(Serialize)]
pub struct MachineResults {
    pub machine: String,
    #[serde(flatten)]
    pub basis: Basis,
    pub tracing: f64,
    #[serde(flatten)]
    pub answer: Answer,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Published>,
}

/// Complete output for machines of all sizes.
#[derive(Serialize)]
pub struct GrowthResults {
    #[serde(flatten)]
    pub basis: Basis,
    pub against: KernelName,
    pub known: KnownSizes,
    #[serde(flatten)]
    pub growth: Growth,
}
