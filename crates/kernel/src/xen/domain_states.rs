//! What the hypervisor knows about each domain: whether it runs, and the handle that the tools in
//! dom0 know it by.
//!
//! Nothing tells where struct domain (xen/include/xen/sched.h) has these members. They are found by
//! what they contain in all domains together, those of the hypervisor among them, and only if one
//! place alone fits.

use bigiron_format::VirtAddr;

use super::host::Host;
use crate::error::KernelError;

/// The code of a domain that has not been told to shut down (SHUTDOWN_CODE_INVALID).
const NO_CODE: u32 = u32::MAX;
/// Codes have eight bits (domain_shutdown, xen/common/domain.c).
const MAX_CODE: u32 = 0xff;
/// Members behind each other, in half words: flags, code, event channel, count of pauses.
const CODE: usize = 1;
const CHANNEL: usize = 2;
const PAUSES: usize = 3;
/// The count of references behind them, or behind vm_assist in older versions.
const REFERENCES: [usize; 2] = [4, 6];
/// Event channels, pauses and references of a domain are fewer.
const MAX_CHANNELS: u32 = 1 << 17;
const MAX_COUNT: u32 = 1 << 24;
/// Domains among which the members are looked for, besides those of the hypervisor.
const SAMPLE: usize = 64;
/// Reasons by their code (SHUTDOWN_*, xen/include/public/sched.h).
const REASONS: [&str; 6] = [
    "poweroff",
    "reboot",
    "suspend",
    "crash",
    "watchdog",
    "soft reset",
];

/// A domain's handle, a UUID.
pub type Handle = [u8; 16];

/// How far a domain has shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its code is set, nothing else has been done.
    Requested,
    /// Some of its virtual CPUs still run.
    Begun,
    /// None runs.
    Done,
}

/// What a domain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It runs, or waits for an event.
    Runs,
    /// It is paused.
    Paused,
    /// It shuts down, or has shut down.
    ShutsDown {
        /// How far.
        phase: Phase,
        /// The code of the reason.
        code: u32,
    },
}

/// Returns the reason with a code, if it has a name.
pub fn shutdown_reason(code: u32) -> Option<&'static str> {
    REASONS.get(code as usize).copied()
}

/// What is known about a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainState {
    /// What it does.
    pub activity: Option<Activity>,
    /// Its handle; `None` also if it has none, as dom0.
    pub handle: Option<Handle>,
}

/// A struct domain.
struct Contents {
    half_words: Vec<u32>,
    /// True for dom0, whose handle may be zero.
    is_dom0: bool,
    /// True for a domain of the hypervisor itself, which has no handle.
    is_system: bool,
}

impl Host<'_> {
    /// Returns the state of each domain, in the order of [`Host::domains`].
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn domain_states(&self) -> Result<Vec<DomainState>, KernelError> {
        let mut sample = Vec::new();
        for domain in self.domains().iter().take(SAMPLE) {
            sample.extend(self.contents(domain.address, domain.id == 0, false)?);
        }
        for address in self.system_domains() {
            sample.extend(self.contents(*address, false, true)?);
        }
        let shutdown = find_shutdown(&sample);
        let handle = shutdown.and_then(|behind| find_handle(&sample, behind));
        let states = self.domains().iter().map(|domain| {
            let contents = self.contents(domain.address, domain.id == 0, false)?;
            Ok(
                contents.map_or_else(DomainState::default, |domain| DomainState {
                    activity: shutdown.and_then(|at| domain.activity(at)),
                    handle: handle
                        .and_then(|at| domain.handle(at))
                        .filter(|handle| handle != &Handle::default()),
                }),
            )
        });
        states.collect()
    }

    /// Reads a struct domain; `None` if it is not there.
    fn contents(
        &self,
        address: VirtAddr,
        is_dom0: bool,
        is_system: bool,
    ) -> Result<Option<Contents>, KernelError> {
        let words = self.words(address.0, self.domain_size() / 8)?;
        let half_words = |words: Vec<u64>| {
            let halves = words.into_iter();
            halves.flat_map(|word| [word as u32, (word >> 32) as u32])
        };
        Ok(words.map(|words| Contents {
            half_words: half_words(words).collect(),
            is_dom0,
            is_system,
        }))
    }
}

impl Contents {
    fn half_word(&self, at: usize) -> Option<u32> {
        self.half_words.get(at).copied()
    }

    /// Returns what the domain does, if the members at `at` can be those.
    fn activity(&self, at: usize) -> Option<Activity> {
        let code = self.half_word(at + CODE)?;
        // Two flags, or one number since 2026.
        let phase = match self.half_word(at)? {
            0 => Phase::Requested,
            1 => Phase::Begun,
            2 | 0x101 => Phase::Done,
            _ => return None,
        };
        let pauses = self.half_word(at + PAUSES)?;
        if self.half_word(at + CHANNEL)? >= MAX_CHANNELS || pauses >= MAX_COUNT {
            return None;
        }
        match (code, phase) {
            (0..=MAX_CODE, phase) => Some(Activity::ShutsDown { phase, code }),
            (NO_CODE, Phase::Requested) if pauses > 0 => Some(Activity::Paused),
            (NO_CODE, Phase::Requested) => Some(Activity::Runs),
            _ => None,
        }
    }

    /// Returns true if there is a count of references at a distance from `at`.
    fn has_references(&self, at: usize, distance: usize) -> bool {
        self.half_word(at + distance)
            .is_some_and(|count| (1..MAX_COUNT).contains(&count))
    }

    fn handle(&self, at: usize) -> Option<Handle> {
        let halves = self.half_words.get(at..at + 4)?;
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        bytes.try_into().ok()
    }
}

/// Returns where all domains have the members about shutting down, by half words.
fn find_shutdown(domains: &[Contents]) -> Option<usize> {
    let len = domains.iter().map(|domain| domain.half_words.len()).min()?;
    only((0..len).filter(|at| {
        let at = *at;
        let running = domains
            .iter()
            .any(|domain| domain.half_word(at + CODE) == Some(NO_CODE));
        running
            && domains.iter().all(|domain| domain.activity(at).is_some())
            && REFERENCES.into_iter().any(|distance| {
                let mut domains = domains.iter();
                domains.all(|domain| domain.has_references(at, distance))
            })
    }))
}

/// Returns where all domains have their handles, by half words: behind the members about shutting
/// down, where each domain has a UUID of its own, and the hypervisor's domains have none.
fn find_handle(domains: &[Contents], behind: usize) -> Option<usize> {
    let len = domains.iter().map(|domain| domain.half_words.len()).min()?;
    if domains
        .iter()
        .all(|domain| domain.is_dom0 || domain.is_system)
    {
        return None;
    }
    only(
        (behind..len)
            .filter(|at| at.is_multiple_of(2))
            .filter(|at| {
                let mut seen = Vec::new();
                domains.iter().all(|domain| match domain.handle(*at) {
                    Some(handle) if handle == Handle::default() => {
                        domain.is_dom0 || domain.is_system
                    }
                    Some(handle) if domain.is_system || seen.contains(&handle) => false,
                    Some(handle) => {
                        seen.push(handle);
                        is_uuid(&handle)
                    }
                    None => false,
                })
            }),
    )
}

/// Returns true for a UUID of one of the versions of RFC 9562.
fn is_uuid(handle: &Handle) -> bool {
    (1..=8).contains(&(handle[6] >> 4)) && handle[8] >> 6 == 2
}

/// Returns the place, if there is one alone.
fn only(mut places: impl Iterator<Item = usize>) -> Option<usize> {
    let first = places.next()?;
    places.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct domain with members from half word 4 on, and a handle at 12.
    fn domain(flags: u32, code: u32, pauses: u32, handle: Option<u8>) -> Contents {
        let mut half_words = vec![0; 20];
        half_words[4..9].copy_from_slice(&[flags, code, 0, pauses, 3]);
        if let Some(first) = handle {
            let words = [u32::from(first), 0x004a_0000, 0x80, 0x1234_5678];
            half_words[12..16].copy_from_slice(&words);
        }
        Contents {
            half_words,
            is_dom0: handle.is_none(),
            is_system: false,
        }
    }

    #[test]
    fn every_phase_of_a_shutdown_is_told_from_running_and_pausing() {
        let all = [
            domain(0, NO_CODE, 0, None),
            domain(0, NO_CODE, 2, Some(1)),
            domain(0x101, 3, 0, Some(2)),
            domain(2, 1, 1, Some(3)),
            domain(1, 4, 0, Some(4)),
            domain(0, 3, 0, Some(5)),
        ];
        let at = find_shutdown(&all).unwrap();
        let found: Vec<_> = all.iter().map(|domain| domain.activity(at)).collect();
        let shuts = |phase, code| Some(Activity::ShutsDown { phase, code });
        let expected = [
            Some(Activity::Runs),
            Some(Activity::Paused),
            shuts(Phase::Done, 3),
            shuts(Phase::Done, 1),
            shuts(Phase::Begun, 4),
            shuts(Phase::Requested, 3),
        ];
        assert_eq!(found, expected);
        assert_eq!(find_handle(&all, at), Some(12));
    }

    #[test]
    fn nothing_is_told_where_two_places_fit() {
        let mut twice = domain(0, NO_CODE, 0, Some(1));
        twice.half_words.extend([0, NO_CODE, 0, 1, 3, 0, 0]);
        assert_eq!(find_shutdown(&[twice]), None);
        let equal = [(); 2].map(|()| domain(0, NO_CODE, 0, Some(1)));
        assert_eq!(find_shutdown(&equal), Some(4));
        assert_eq!(find_handle(&equal, 4), None);
    }

    #[test]
    fn a_code_alone_is_no_proof() {
        let dom0 = domain(0, 3, 0, None);
        let mut system = domain(0, NO_CODE, 0, None);
        system.is_system = true;
        let both = [dom0, system];
        assert_eq!(find_shutdown(&both[..1]), None);
        assert_eq!(find_shutdown(&both), Some(4));
    }
}
