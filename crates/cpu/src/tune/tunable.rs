//! The tunables of a domain.

use serde::{Deserialize, Serialize};

use super::TuneError;
use crate::domains::Tunables;

/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 40;

/// Value of a domain that an administrator may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tunable {
    /// Minimum interval between balancing, in milliseconds.
    MinInterval,
    /// Maximum interval between balancing, in milliseconds.
    MaxInterval,
    /// Factor by which the interval grows while the CPU is busy.
    BusyFactor,
    /// Load that another group must have, in per cent of this group's load.
    ImbalancePct,
    /// Number of attempts that skip cache-hot tasks.
    CacheNiceTries,
}

impl Tunable {
    /// All tunables.
    pub const ALL: [Self; 5] = [
        Self::MinInterval,
        Self::MaxInterval,
        Self::BusyFactor,
        Self::ImbalancePct,
        Self::CacheNiceTries,
    ];

    /// Returns the name of the kernel's file.
    pub fn name(self) -> &'static str {
        match self {
            Self::MinInterval => "min_interval",
            Self::MaxInterval => "max_interval",
            Self::BusyFactor => "busy_factor",
            Self::ImbalancePct => "imbalance_pct",
            Self::CacheNiceTries => "cache_nice_tries",
        }
    }

    /// Returns the tunable with a name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tunable| tunable.name() == name)
    }

    /// Returns the value of this tunable.
    pub fn of(self, tunables: &Tunables) -> u64 {
        match self {
            Self::MinInterval => tunables.min_interval,
            Self::MaxInterval => tunables.max_interval,
            Self::BusyFactor => tunables.busy_factor.into(),
            Self::ImbalancePct => tunables.imbalance_pct.into(),
            Self::CacheNiceTries => tunables.cache_nice_tries.into(),
        }
    }

    /// Returns the largest value. Intervals are `unsigned long`; the others are `unsigned int`,
    /// for which the kernel's files silently drop the high bits (debugfs_u32_set,
    /// fs/debugfs/file.c).
    pub fn most(self) -> u64 {
        match self {
            Self::MinInterval | Self::MaxInterval => u64::MAX,
            Self::BusyFactor | Self::ImbalancePct | Self::CacheNiceTries => u32::MAX.into(),
        }
    }

    /// Parses a number as the kernel's file does (kstrtoull): decimal, hexadecimal after `0x`,
    /// or octal after `0`, followed by at most one newline.
    ///
    /// # Errors
    /// The text is not a number, or the number is too large.
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
