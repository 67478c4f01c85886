//! Lists of CPUs as the kernel writes them: `0-3,8,10-11`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// No kernel can have more: NR_CPUS of arch/x86/Kconfig ends at 8192, and
/// 65536 leaves room. It keeps a list that nobody vouches for from growing.
const MOST: u32 = 1 << 16;

/// A set of CPU numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u32>);

/// What is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no list of CPUs such as 0-3,8: {reason}")]
pub struct CpuListError {
    text: String,
    reason: &'static str,
}

impl CpuList {
    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Out of a mask as the kernel writes it: words of 32 CPUs in hexadecimal, the highest
    /// first, parted by commas.
    ///
    /// # Errors
    /// It is none, or longer than any kernel's.
    pub fn from_mask(text: &str) -> Result<Self, CpuListError> {
        let wrong = || CpuListError {
            text: text.chars().take(80).collect(),
            reason: "expected a mask such as 00000000,0000ff00",
        };
        let words: Vec<&str> = text.trim().split(',').collect();
        if words.len() > MOST as usize / 32 {
            return Err(wrong());
        }
        let mut cpus = BTreeSet::new();
        for (place, word) in words.iter().rev().enumerate() {
            let is_word = (1..=8).contains(&word.len()) && !word.starts_with('+');
            let bits = u32::from_str_radix(word, 16).ok().filter(|_| is_word);
            let bits = bits.ok_or_else(wrong)?;
            let set = (0..32).filter(|bit| bits & (1 << bit) != 0);
            cpus.extend(set.map(|bit| place as u32 * 32 + bit));
        }
        Ok(Self(cpus))
    }

    /// Whether it has a CPU.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

/// As the kernel writes it.
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
            Err(_) => Err(wrong("a number is missing or too large")),
        };
        let mut cpus = BTreeSet::new();
        let text_without_end = text.trim();
        if text_without_end.is_empty() {
            return Ok(Self::default());
        }
        for part in text_without_end.split(',') {
            match part.split_once('-') {
                None => {
                    cpus.insert(number(part)?);
                }
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(wrong("a range goes backwards"));
                    }
                    cpus.extend(first..=last);
                }
            }
        }
        Ok(Self(cpus))
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
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
    fn the_kernels_lists_are_read_and_written_as_the_kernel_does() {
        for text in ["", "0", "0-3", "0-3,8,10-11", "1,3,5", "0-65535"] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.to_string(), text);
        }
        let list: CpuList = "0-1,2,3\n".parse().unwrap();
        assert_eq!((list.to_string(), list.len()), ("0-3".to_owned(), 4));
    }

    #[test]
    fn what_is_no_list_is_an_error() {
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
            assert!(error.to_string().contains("no list of CPUs"), "{text}");
        }
    }

    #[test]
    fn masks_have_their_highest_word_first() {
        let list = |text| CpuList::from_mask(text).map(|list| list.to_string());
        assert_eq!(list("ff"), Ok("0-7".into()));
        assert_eq!(list("1,00000000,80000001\n"), Ok("0,31,64".into()));
        assert_eq!(list("0"), Ok(String::new()));
        for text in ["", "xyz", "1,,1", "123456789", "+1"] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_in_one_and_not_in_the_other() {
        let all: CpuList = "0-7".parse().unwrap();
        let some: CpuList = "0,2-3,9".parse().unwrap();
        assert_eq!(all.without(&some).to_string(), "1,4-7");
        assert!(some.without(&some).is_empty());
    }
}
