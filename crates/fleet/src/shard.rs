//! Shards: parts of the work for machines or jobs that know nothing of each other.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

/// A part of all dumps, by the hash of their paths: a dump stays in its shard whatever dumps are
/// added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// Maximum number of shards: each is a file.
const MAX_COUNT: u32 = 100_000;

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Shard {
    /// Returns true if the dump belongs to this shard.
    pub fn has(&self, path: &str) -> bool {
        xxh3_64(path.as_bytes()) % u64::from(self.count) == u64::from(self.index)
    }

    /// Name of its file.
    pub fn file_name(&self) -> String {
        format!("crashes-{:05}-of-{:05}.parquet", self.index, self.count)
    }

    /// The number of shards that the name of a file states; `None` for other files.
    pub fn count_in(name: &str) -> Option<u32> {
        let middle = name.strip_prefix("crashes-")?.strip_suffix(".parquet")?;
        middle.split_once("-of-")?.1.parse().ok()
    }

    /// The number of shards.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers =
            numbers.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count && count <= MAX_COUNT => {
                Ok(Self { index, count })
            }
            _ => Err(format!(
                "expected I/N, such as 0/4 for the first of four shards: I below N, N at most {MAX_COUNT}"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn every_path_is_in_one_shard() {
        let shards: Vec<Shard> = (0..7).map(|i| format!("{i}/7").parse().unwrap()).collect();
        for number in 0..100 {
            let path = format!("/var/crash/{number}/vmcore");
            assert_eq!(shards.iter().filter(|shard| shard.has(&path)).count(), 1);
        }
    }

    #[test]
    fn file_names_state_the_number_of_shards() {
        let shard: Shard = "3/12".parse().unwrap();
        assert_eq!(Shard::count_in(&shard.file_name()), Some(12));
        assert_eq!(Shard::count_in("crashes.parquet"), None);
    }

    #[test]
    fn wrong_shards_are_refused() {
        for wrong in ["", "1", "1/1", "2/1", "-1/2", "0/0", "0/100001", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
