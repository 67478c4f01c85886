//! The tunables of a domain.

use serde::{Deserialize, Serialize};

use super::TuneError;
use crate::domains::Tunables;

/// Longer numbers are none.
const MAX_DIGITS: usize = 40;

/// One of what an administrator may change of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tunable {
    /// Milliseconds between balancing, at least.
    MinInterval,
    /// Milliseconds between balancing, at most.
    MaxInterval,
    /// How much longer the interval is while the CPU is busy.
    BusyFactor,
    /// Per cent of this group's load that another must have.
    ImbalancePct,
    /// Attempts that leave alone what has a warm cache.
    CacheNiceTries,
}

impl Tunable {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::MinInterval,
        Self::MaxInterval,
        Self::BusyFactor,
        Self::ImbalancePct,
        Self::CacheNiceTries,
    ];

    /// The name of the kernel's file.
    pub fn name(self) -> &'static str {
        match self {
            Self::MinInterval => "min_interval",
            Self::MaxInterval => "max_interval",
            Self::BusyFactor => "busy_factor",
            Self::ImbalancePct => "imbalance_pct",
            Self::CacheNiceTries => "cache_nice_tries",
        }
    }

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tunable| tunable.name() == name)
    }

    /// Its value among others.
    pub fn of(self, tunables: &Tunables) -> u64 {
        match self {
            Self::MinInterval => tunables.min_interval,
            Self::MaxInterval => tunables.max_interval,
            Self::BusyFactor => tunables.busy_factor.into(),
            Self::ImbalancePct => tunables.imbalance_pct.into(),
            Self::CacheNiceTries => tunables.cache_nice_tries.into(),
        }
    }

    /// The largest value: intervals are `unsigned long`, the others `unsigned int`, of which the
    /// kernel's files silently cut off what is above (debugfs_u32_set, fs/debugfs/file.c).
    pub fn most(self) -> u64 {
        match self {
            Self::MinInterval | Self::MaxInterval => u64::MAX,
            Self::BusyFactor | Self::ImbalancePct | Self::CacheNiceTries => u32::MAX.into(),
        }
    }

    /// A number as the kernel's file takes it: decimal, `0x` and hexadecimal, or `0` and octal, and
    /// one end of line (kstrtoull).
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn parse(self, text: &[u8]) -> Result<u64, TuneError> {
        let text = String::from_utf8_lossy(text);
        let wrong = || TuneError::Value {
            text: text.chars().take(MAX_DIGITS).collect(),
            most: self.most(),
        };
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let digits = line.strip_prefix('+').unwrap_or(line);
        let hexadecimal = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
        let (digits, base) = match (hexadecimal, digits.strip_prefix('0')) {
            (Some(digits), _) => (digits, 16),
            (None, Some(octal)) if !octal.is_empty() => (octal, 8),
            _ => (digits, 10),
        };
        if digits.len() > MAX_DIGITS || !digits.starts_with(|c: char| c.is_digit(base)) {
            return Err(wrong());
        }
        let value = u64::from_str_radix(digits, base).map_err(|_| wrong())?;
        match value <= self.most() {
            true => Ok(value),
            false => Err(wrong()),
        }
    }
}
