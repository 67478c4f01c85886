//! `bigiron info --network`.

use bigiron_inspect::network::NetworkDevice;
use bigiron_inspect::{Network, Program};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "network";

/// Finds the network devices.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, Network::of(program), show)
}

/// Shows the devices of the first namespace; of each other one, only how many there are.
fn show(found: &Network, page: &mut Page) {
    if let Some(first) = found.namespaces.first() {
        let rows: Vec<Vec<String>> = first.devices.iter().map(row).collect();
        let heading = format!("network devices: {}", rows.len());
        let columns = ["name", "state", "mtu", "driver", "timeouts"];
        page.table(&heading, &columns, &[2, 4], &rows);
    }
    for other in found.namespaces.iter().skip(1) {
        let names = other.devices.iter().map(|device| device.name.as_str());
        let names: Vec<&str> = names.collect();
        let number = other.number;
        page.line(
            "",
            &format!("network namespace {number}: {}", names.join(", ")),
        );
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn row(device: &NetworkDevice) -> Vec<String> {
    let state = match (device.up, device.carrier) {
        (false, _) => "stopped".to_owned(),
        (true, false) => "no carrier".to_owned(),
        (true, true) => device.operation.to_owned(),
    };
    vec![
        device.name.clone(),
        state,
        device.mtu.to_string(),
        device.driver.clone().unwrap_or_default(),
        device.transmit_timeouts.to_string(),
    ]
}
