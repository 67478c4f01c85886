//! Network devices, by network namespace.
//!
//! Relies on `net_namespace_list` (net/core/net_namespace.c), struct net (`dev_base_head`), struct
//! net_device (include/linux/netdevice.h), and the driver of its `dev.parent`.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::Program;

/// Maximum number of namespaces, and of devices of all of them.
const MAX_NAMESPACES: usize = 1 << 16;
const MAX_DEVICES: usize = 1 << 20;
/// Maximum number of transmit queues of a device (netif_alloc_netdev_queues).
const MAX_QUEUES: u64 = 0xffff;
/// Maximum length of a driver's name.
const MAX_DRIVER: usize = 64;
/// IFF_UP (include/uapi/linux/if.h).
const UP: u64 = 1;
/// __LINK_STATE_NOCARRIER of enum netdev_state_t.
const NO_CARRIER: u32 = 2;
/// IF_OPER_UNKNOWN to IF_OPER_UP (include/uapi/linux/if.h), as RFC 2863 has them.
const OPERATION: [&str; 7] = [
    "unknown",
    "not-present",
    "down",
    "lower-layer-down",
    "testing",
    "dormant",
    "up",
];

/// The network of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Its namespaces, the first one first.
    pub namespaces: Vec<NetworkNamespace>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkNamespace {
    /// Its struct net.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Its number, as in /proc/PID/ns/net.
    pub number: u64,
    /// Its devices.
    pub devices: Vec<NetworkDevice>,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkDevice {
    /// Name: `eth0`.
    pub name: String,
    /// Its struct net_device.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Interface index.
    pub index: u64,
    /// Maximum size of a packet, in bytes.
    pub mtu: u64,
    /// True if it was started.
    pub up: bool,
    /// True if it has a carrier.
    pub carrier: bool,
    /// State of operation: `up`.
    pub operation: &'static str,
    /// Driver; `None` for devices without hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Times that a transmit queue did not end in time (`ndo_tx_timeout`).
    pub transmit_timeouts: u64,
}

impl Network {
    /// Reads the devices of all namespaces.
    ///
    /// # Errors
    ///
    /// The kernel lacks a symbol or a member.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let head = program.symbol("net_namespace_list")?;
        let walk = program.list(head, "net", "list", MAX_NAMESPACES)?;
        let mut found = Self {
            gaps: walk.cut.into_iter().collect(),
            ..Self::default()
        };
        let mut left = MAX_DEVICES;
        for address in walk.items {
            let devices = devices(program, address, &mut left, &mut found.gaps)?;
            found.namespaces.push(NetworkNamespace {
                address,
                number: program.value(address, "net", "ns.inum")?,
                devices,
            });
        }
        Ok(found)
    }
}

fn devices(
    program: &Program,
    namespace: VirtAddr,
    left: &mut usize,
    gaps: &mut Vec<String>,
) -> Result<Vec<NetworkDevice>, InspectError> {
    let head = program.member(namespace, "net", "dev_base_head")?;
    let walk = program.list(head, "net_device", "dev_list", *left)?;
    *left = left.saturating_sub(walk.items.len());
    gaps.extend(walk.cut);
    let mut devices = Vec::new();
    for address in walk.items {
        match device(program, address) {
            Ok(device) => devices.push(device),
            Err(error) => gaps.push(format!("device at {address}: {error}")),
        }
    }
    Ok(devices)
}

fn device(program: &Program, address: VirtAddr) -> Result<NetworkDevice, InspectError> {
    let value = |path: &str| program.value(address, "net_device", path);
    let operation = value("operstate")?;
    let operation = usize::try_from(operation).ok();
    Ok(NetworkDevice {
        name: program.text(address, "net_device", "name")?,
        address,
        index: value("ifindex")?,
        mtu: value("mtu")?,
        up: value("flags")? & UP != 0,
        carrier: (value("state")? >> NO_CARRIER) & 1 == 0,
        operation: operation
            .and_then(|index| OPERATION.get(index))
            .unwrap_or(&"unknown"),
        driver: driver(program, address)?,
        transmit_timeouts: timeouts(program, address)?,
    })
}

fn driver(program: &Program, device: VirtAddr) -> Result<Option<String>, InspectError> {
    let parent = program.pointer(device, "net_device", "dev.parent")?;
    if parent.0 == 0 {
        return Ok(None);
    }
    let driver = program.pointer(parent, "device", "driver")?;
    if driver.0 == 0 {
        return Ok(None);
    }
    let name = program.pointer(driver, "device_driver", "name")?;
    program.string(name, MAX_DRIVER).map(Some)
}

/// Adds up `trans_timeout` of the transmit queues.
fn timeouts(program: &Program, device: VirtAddr) -> Result<u64, InspectError> {
    let queues = program.pointer(device, "net_device", "_tx")?;
    let count = program
        .value(device, "net_device", "num_tx_queues")?
        .min(MAX_QUEUES);
    let size = program.size_of("netdev_queue")?;
    let mut sum = 0_u64;
    for index in 0..count {
        let at = program.plus(queues, index.saturating_mul(size))?;
        // A long, an atomic one since 6.2 (8160fb43d55d).
        let path = match program.has("netdev_queue", "trans_timeout.counter") {
            true => "trans_timeout.counter",
            false => "trans_timeout",
        };
        sum = sum.saturating_add(program.value(at, "netdev_queue", path)?);
    }
    Ok(sum)
}
