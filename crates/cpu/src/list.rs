//! Lists of CPUs in the kernel's format: `0-3,8,10-11`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Limit of CPU numbers: NR_CPUS in arch/x86/Kconfig is at most 8192, and 65536 leaves room. It
/// bounds the size of a list from an untrusted source.
const MOST: u32 = 1 << 16;

/// A set of CPU numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuList {
    /// First and last CPU of each run, in ascending order, with a gap of at least one CPU
    /// between runs. Large domains thus take little memory, and equal sets compare equal.
    runs: Vec<(u32, u32)>,
}

/// Error in the text of a CPU list or mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CPU list {text:?}: {reason}")]
pub struct CpuListError {
    text: String,
    reason: &'static str,
}

impl CpuList {
    /// Iterates over the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        let length = |(first, last): &(u32, u32)| (last - first) as usize + 1;
        self.runs.iter().map(length).sum()
    }

    /// Returns true if the list has no CPUs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Parses a mask in the kernel's format: words of 32 CPUs in hexadecimal, the highest
    /// first, separated by commas.
    ///
    /// # Errors
    /// The text is not a mask, or is longer than any kernel's.
    pub fn from_mask(text: &str) -> Result<Self, CpuListError> {
        let wrong = || CpuListError {
            text: text.chars().take(80).collect(),
            reason: "expected a mask such as 00000000,0000ff00",
        };
        let words: Vec<&str> = text.trim().split(',').collect();
        if words.len() > MOST as usize / 32 {
            return Err(wrong());
        }
        let mut cpus = Vec::new();
        for (index, word) in words.iter().rev().enumerate() {
            let is_word = (1..=8).contains(&word.len()) && !word.starts_with('+');
            let bits = u32::from_str_radix(word, 16).ok().filter(|_| is_word);
            let bits = bits.ok_or_else(wrong)?;
            let set = (0..32).filter(|bit| bits & (1 << bit) != 0);
            cpus.extend(set.map(|bit| index as u32 * 32 + bit));
        }
        Ok(cpus.into_iter().collect())
    }

    /// Returns true if the list contains a CPU.
    pub fn contains(&self, cpu: u32) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= cpu);
        let run = after.checked_sub(1).and_then(|at| self.runs.get(at));
        run.is_some_and(|(_, last)| cpu <= *last)
    }

    /// Returns the CPUs that are in both lists.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.iter().filter(|cpu| other.contains(*cpu)).collect()
    }

    /// Returns the CPUs that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|cpu| !other.contains(*cpu)).collect()
    }

    /// Creates a list from runs in any order, which may overlap.
    fn of_runs(mut runs: Vec<(u32, u32)>) -> Self {
        runs.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in runs {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self { runs: joined }
    }
}

/// Serializes the list in the kernel's format.
impl Serialize for CpuList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let wrong = |reason| CpuListError {
            text: text.chars().take(80).collect(),
            reason,
        };
        let number = |digits: &str| match digits.parse::<u32>() {
            Ok(number) if number < MOST && digits.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(number)
            }
            Ok(_) => Err(wrong("the number is too large")),
            Err(_) => Err(wrong(
                "a number is missing or too large; expected a list such as 0-3,8",
            )),
        };
        let text_without_end = text.trim();
        if text_without_end.is_empty() {
            return Ok(Self::default());
        }
        let mut runs = Vec::new();
        for part in text_without_end.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong("a range goes backwards"));
            }
            runs.push((first, last));
        }
        Ok(Self::of_runs(runs))
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self::of_runs(cpus.into_iter().map(|cpu| (cpu, cpu)).collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (first, last) in &self.runs {
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip_in_the_kernels_format() {
        for text in ["", "0", "0-3", "0-3,8,10-11", "1,3,5", "0-65535"] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.to_string(), text);
        }
        let list: CpuList = "0-1,2,3\n".parse().unwrap();
        assert_eq!((list.to_string(), list.len()), ("0-3".to_owned(), 4));
    }

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let list: CpuList = "4-5,0,2-4,1,9,9".parse().unwrap();
        assert_eq!((list.to_string(), list.len()), ("0-5,9".to_owned(), 7));
        assert_eq!(list, [9, 5, 4, 3, 2, 1, 0, 0].into_iter().collect());
        assert_eq!(Ok(&list), CpuList::from_mask("23f").as_ref());
        let cpus: Vec<u32> = list.iter().collect();
        assert_eq!(cpus, [0, 1, 2, 3, 4, 5, 9]);
        assert!((0..12).all(|cpu| list.contains(cpu) == cpus.contains(&cpu)));
        let ends: CpuList = [u32::MAX, 0].into_iter().collect();
        assert_eq!(ends.to_string(), "0,4294967295");
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for text in [
            "a",
            "1-",
            "-1",
            "3-1",
            "1,,2",
            "0-4294967295",
            "65536",
            "+1",
            "1-2-3",
            " , ",
        ] {
            let error = text.parse::<CpuList>().unwrap_err();
            assert!(error.to_string().contains("invalid CPU list"), "{text}");
        }
    }

    #[test]
    fn masks_start_with_the_highest_word() {
        let list = |text| CpuList::from_mask(text).map(|list| list.to_string());
        assert_eq!(list("ff"), Ok("0-7".into()));
        assert_eq!(list("1,00000000,80000001\n"), Ok("0,31,64".into()));
        assert_eq!(list("0"), Ok(String::new()));
        for text in ["", "xyz", "1,,1", "123456789", "+1"] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn intersection_and_difference() {
        let all: CpuList = "0-7".parse().unwrap();
        let some: CpuList = "0,2-3,9".parse().unwrap();
        assert_eq!(all.without(&some).to_string(), "1,4-7");
        assert!(some.without(&some).is_empty());
        assert_eq!(all.and(&some).to_string(), "0,2-3");
    }
}
