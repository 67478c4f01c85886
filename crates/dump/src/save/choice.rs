//! Chooses which of the saved dumps stay: the newest, and the first of each crash.

use std::collections::HashSet;

/// The dumps that stay in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Number of dumps at most.
    pub dumps: Option<u64>,
    /// Room that all dumps take at most, in bytes; holes take none.
    pub bytes: Option<u64>,
}

/// What becomes of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays, as it would without a fingerprint.
    Stays,
    /// It stays because it is the oldest with its fingerprint.
    StaysAsFirst,
    /// It is removed.
    Goes,
}

/// What becomes of all dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The fate of each, by place.
    pub fates: Vec<Fate>,
    /// The bytes that those which stay take.
    pub bytes: u64,
}

impl Retention {
    /// Returns true if dumps of any number and size stay.
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Chooses among dumps of these sizes, the newest first. It stays, whatever its size. The
    /// oldest dump of each fingerprint stays besides the number of dumps; the bytes are a limit for
    /// it as well, but others are removed for it.
    ///
    /// `fingerprint` names the crash of the dump at a place, or `None` if it is not known. It is
    /// asked only if a dump would be removed without it, and only of dumps that may be removed.
    ///
    /// # Errors
    ///
    /// The first one of `fingerprint`.
    pub fn choose<E>(
        self,
        sizes: &[u64],
        mut fingerprint: impl FnMut(usize) -> Result<Option<String>, E>,
    ) -> Result<Choice, E> {
        let mut is_first = vec![false; sizes.len()];
        let (plain, _) = self.stay(sizes, &is_first);
        if plain.contains(&false) {
            let mut seen = HashSet::new();
            let places = is_first.iter_mut().enumerate();
            for (place, is_first) in places.skip(self.secure(sizes)).rev() {
                if let Some(crash) = fingerprint(place)? {
                    *is_first = seen.insert(crash);
                }
            }
        }
        let (stay, bytes) = self.stay(sizes, &is_first);
        let fates = stay.iter().zip(&plain).map(|fate| match fate {
            (true, true) => Fate::Stays,
            // Nothing but being a first gives a dump a better place.
            (true, false) => Fate::StaysAsFirst,
            (false, _) => Fate::Goes,
        });
        Ok(Choice {
            fates: fates.collect(),
            bytes,
        })
    }

    /// Number of the newest dumps that stay, whatever the fingerprints are.
    fn secure(self, sizes: &[u64]) -> usize {
        let all = sizes.iter().copied().fold(0, u64::saturating_add);
        if self.bytes.is_some_and(|most| all > most) {
            return 1;
        }
        let most = self.dumps.unwrap_or(u64::MAX);
        usize::try_from(most).unwrap_or(usize::MAX).max(1)
    }

    /// Which dumps stay if some are firsts, and the bytes that they take.
    fn stay(self, sizes: &[u64], is_first: &[bool]) -> (Vec<bool>, u64) {
        let (mut stay, mut bytes) = (vec![false; sizes.len()], 0_u64);
        let dumps = stay.iter_mut().zip(sizes.iter().zip(is_first));
        let mut order: Vec<_> = dumps.enumerate().collect();
        order.sort_by_key(|(place, (_, (_, is_first)))| (*place != 0, !**is_first, *place));
        for (place, (stays, (size, _))) in order {
            let with_it = bytes.saturating_add(*size);
            if place == 0 || self.bytes.is_none_or(|most| with_it <= most) {
                (*stays, bytes) = (true, with_it);
            }
        }
        let mut kept = 0_u64;
        let dumps = stay.iter_mut().zip(sizes.iter().zip(is_first));
        for (stays, (size, is_first)) in dumps.filter(|(stays, _)| **stays) {
            let is_too_many = self.dumps.is_some_and(|most| kept >= most);
            if is_too_many && kept > 0 && !is_first {
                *stays = false;
                bytes = bytes.saturating_sub(*size);
            } else {
                kept += 1;
            }
        }
        (stay, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::Fate::{Goes, Stays, StaysAsFirst};
    use super::*;

    /// Chooses among dumps of (size, crash), the newest first; `-` is a dump without a fingerprint.
    /// Returns the places that were asked as well.
    fn choose(
        dumps: Option<u64>,
        bytes: Option<u64>,
        all: &[(u64, &str)],
    ) -> (Vec<Fate>, Vec<usize>) {
        let sizes: Vec<_> = all.iter().map(|(size, _)| *size).collect();
        let mut asked = Vec::new();
        let chosen = Retention { dumps, bytes }.choose(&sizes, |place| {
            asked.push(place);
            let crash = all.get(place).map_or("-", |(_, crash)| *crash);
            Ok::<_, Infallible>((crash != "-").then(|| crash.to_owned()))
        });
        let Ok(Choice { fates, bytes }) = chosen;
        let kept = sizes.iter().zip(&fates).filter(|(_, fate)| **fate != Goes);
        assert_eq!(bytes, kept.map(|(size, _)| size).sum::<u64>());
        (fates, asked)
    }

    #[test]
    fn newest_and_the_first_of_each_crash_stay() {
        let all = [(9, "a"), (9, "b"), (9, "a"), (9, "b"), (9, "a"), (9, "-")];
        let (fates, asked) = choose(Some(2), None, &all);
        let wanted = [Stays, Stays, Goes, StaysAsFirst, StaysAsFirst, Goes];
        assert_eq!(fates, wanted);
        assert_eq!(asked, [5, 4, 3, 2]);
    }

    #[test]
    fn nothing_is_asked_if_all_stay() {
        let all = [(9, "a"), (9, "a"), (9, "b")];
        for (dumps, bytes) in [(None, None), (Some(3), Some(27)), (Some(9), None)] {
            assert_eq!(choose(dumps, bytes, &all), (vec![Stays; 3], vec![]));
        }
    }

    #[test]
    fn repeats_go_before_firsts_and_both_from_the_oldest_on() {
        let all = [
            (10, "a"),
            (10, "b"),
            (10, "a"),
            (10, "a"),
            (10, "b"),
            (10, "a"),
        ];
        let of = |bytes| choose(None, Some(bytes), &all).0;
        assert_eq!(of(59), [Stays, Stays, Stays, Goes, Stays, StaysAsFirst]);
        assert_eq!(
            of(45),
            [Stays, Stays, Goes, Goes, StaysAsFirst, StaysAsFirst]
        );
        assert_eq!(
            of(30),
            [Stays, Goes, Goes, Goes, StaysAsFirst, StaysAsFirst]
        );
        assert_eq!(of(29), [Stays, Goes, Goes, Goes, StaysAsFirst, Goes]);
        assert_eq!(of(19), [Stays, Goes, Goes, Goes, Goes, Goes]);
        assert_eq!(of(1), [Stays, Goes, Goes, Goes, Goes, Goes]);
        assert_eq!(choose(None, Some(59), &all).1, [5, 4, 3, 2, 1]);
    }

    #[test]
    fn first_that_is_too_large_leaves_its_room_to_others() {
        let all = [(50, "a"), (50, "a"), (50, "a"), (180, "a")];
        let wanted = [Stays, Stays, Stays, Goes];
        assert_eq!(choose(None, Some(200), &all).0, wanted);
    }

    #[test]
    fn both_limits_hold_for_repeats_and_the_bytes_for_firsts() {
        let all = [(10, "-"), (10, "-"), (10, "-"), (10, "a"), (10, "b")];
        let wanted = [Stays, Stays, Goes, StaysAsFirst, StaysAsFirst];
        assert_eq!(choose(Some(2), Some(40), &all).0, wanted);
        let wanted = [Stays, Goes, Goes, StaysAsFirst, StaysAsFirst];
        assert_eq!(choose(Some(2), Some(30), &all).0, wanted);
        let wanted = [Stays, Goes, Goes, StaysAsFirst, Goes];
        assert_eq!(choose(Some(1), Some(25), &all).0, wanted);
    }

    #[test]
    fn without_fingerprints_the_newest_stay() {
        let all = [(10, "-"), (30, "-"), (10, "-"), (0, "-")];
        assert_eq!(choose(Some(2), None, &all).0, [Stays, Stays, Goes, Goes]);
        assert_eq!(choose(None, Some(20), &all).0, [Stays, Goes, Stays, Stays]);
        assert_eq!(
            choose(Some(2), Some(20), &all).0,
            [Stays, Goes, Stays, Goes]
        );
        assert_eq!(choose(Some(0), Some(0), &all).0, [Stays, Goes, Goes, Goes]);
        assert_eq!(choose(Some(1), Some(1), &[]).0, []);
    }

    #[test]
    fn failure_to_ask_chooses_nothing() {
        let limits = Retention {
            dumps: Some(1),
            bytes: None,
        };
        assert_eq!(limits.choose(&[1, 1], |_| Err("stopped")), Err("stopped"));
    }
}
