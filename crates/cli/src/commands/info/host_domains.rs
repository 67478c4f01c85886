//! The domains of a Xen host: what each does, its virtual CPUs, its memory and its handle.

use bigiron_kernel::xen::{
    Activity, Census, Domain, DomainState, Handle, Host, Owner, Phase, shutdown_reason,
};
use serde::Serialize;

use super::page::Page;
use crate::size;

/// A domain.
#[derive(Serialize)]
pub struct DomainOverview {
    id: u16,
    /// What it does: `running`, `paused`, `shutdown requested`, `shutting down` or `shut down`.
    state: Option<&'static str>,
    /// Why it shuts down.
    #[serde(skip_serializing_if = "Option::is_none")]
    shutdown: Option<Shutdown>,
    /// The handle that the tools in dom0 gave it.
    uuid: Option<String>,
    /// Virtual CPUs, if they are found.
    virtual_cpus: Option<usize>,
    /// Page frames that it owns.
    pages: u64,
}

/// The reason of a shutdown.
#[derive(Serialize)]
struct Shutdown {
    code: u32,
    reason: Option<&'static str>,
}

impl DomainOverview {
    /// Collects the domains of a host.
    pub fn all(host: &Host, census: &Census) -> anyhow::Result<Vec<Self>> {
        let states = host.domain_states()?;
        let domains = host.domains().iter().zip(states);
        domains
            .map(|(domain, state)| Self::of(host, census, domain, &state))
            .collect()
    }

    fn of(
        host: &Host,
        census: &Census,
        domain: &Domain,
        known: &DomainState,
    ) -> anyhow::Result<Self> {
        let owner = match domain.id {
            0 => Owner::Dom0,
            id => Owner::Domain(id),
        };
        let (state, code) = match known.activity {
            None => (None, None),
            Some(Activity::Runs) => (Some("running"), None),
            Some(Activity::Paused) => (Some("paused"), None),
            Some(Activity::ShutsDown { phase, code }) => {
                let state = match phase {
                    Phase::Requested => "shutdown requested",
                    Phase::Begun => "shutting down",
                    Phase::Done => "shut down",
                };
                (Some(state), Some(code))
            }
        };
        let virtual_cpus = host.vcpus(domain.id)?.len();
        Ok(Self {
            id: domain.id,
            state,
            shutdown: code.map(|code| Shutdown {
                code,
                reason: shutdown_reason(code),
            }),
            uuid: known.handle.as_ref().map(uuid),
            virtual_cpus: (virtual_cpus > 0).then_some(virtual_cpus),
            pages: census.of(owner),
        })
    }

    /// Adds a table of the domains.
    pub fn show(domains: &[Self], page_size: u64, page: &mut Page) {
        let rows = domains.iter().map(|domain| {
            vec![
                domain.id.to_string(),
                domain.state_text(),
                domain
                    .virtual_cpus
                    .map_or("?".into(), |count| count.to_string()),
                size::format(domain.pages.saturating_mul(page_size)).to_string(),
                domain.uuid.clone().unwrap_or_default(),
            ]
        });
        page.table(
            "Domains, whose names are not in the hypervisor",
            &["id", "state", "virtual CPUs", "memory", "UUID"],
            &[0, 2, 3],
            &rows.collect::<Vec<_>>(),
        );
    }

    /// Formats `shut down: crash`.
    fn state_text(&self) -> String {
        let state = self.state.unwrap_or("not known");
        match &self.shutdown {
            None => state.to_owned(),
            Some(Shutdown {
                reason: Some(reason),
                ..
            }) => format!("{state}: {reason}"),
            Some(Shutdown { code, .. }) => format!("{state}: reason {code}"),
        }
    }
}

/// Formats a handle as xl shows it.
fn uuid(handle: &Handle) -> String {
    let mut text = String::new();
    for (index, byte) in handle.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
