//! Lists of CPUs as the kernel writes them: `0-3,8,10-11`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
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
    fn what_is_in_one_and_not_in_the_other() {
        let all: CpuList = "0-7".parse().unwrap();
        let some: CpuList = "0,2-3,9".parse().unwrap();
        assert_eq!(all.without(&some).to_string(), "1,4-7");
        assert!(some.without(&some).is_empty());
    }
}
