//! Letters and names of task states.

use bigiron_format::VirtAddr;

use crate::program::Program;

/// TASK_UNINTERRUPTIBLE.
const UNINTERRUPTIBLE: u64 = 2;
/// TASK_NOLOAD, since 4.2 (commit 80ed87c8a9ca).
const NO_LOAD: u64 = 0x400;
/// TASK_RTLOCK_WAIT since 5.15 (commit 5f220be21418).
const LOCK_WAIT: u64 = 0x1000;
/// TASK_FROZEN since 6.1 (commit f5d39b020809).
const FROZEN: u64 = 0x8000;
/// Maximum number of states; no kernel names more.
const MAX_STATES: usize = 16;

/// The name of each bit of a state; the first name is for no bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States {
    names: Vec<(char, String)>,
}

impl States {
    /// Reads the kernel's own table (task_state_array, fs/proc/array.c): the bits of zombie,
    /// dead and parked changed in 3.15 (commit ad86622b478e) and 4.14 (commit 8ef9925b02c2). If
    /// the table has no symbol (CONFIG_KALLSYMS_ALL), uses the states since 4.14.
    pub fn of(program: &Program) -> Self {
        let mut names = Vec::new();
        if let Ok(table) = program.symbol("task_state_array") {
            while names.len() < MAX_STATES {
                let slot = VirtAddr(table.0.wrapping_add(8 * names.len() as u64));
                let text = program.number(slot, 8).ok();
                let text = text.and_then(|text| program.string(VirtAddr(text), 32).ok());
                match text.as_deref().and_then(parse) {
                    Some(name) => names.push(name),
                    None => break,
                }
            }
        }
        Self::from_names(names)
    }

    fn from_names(mut names: Vec<(char, String)>) -> Self {
        // Idle is not a bit, and later bits in older kernels are not states of their own: they
        // say how a task is woken.
        let is_bit = |(letter, _): &(char, String)| "RSDTtXZP".contains(*letter);
        let end = names.iter().position(|name| !is_bit(name));
        names.truncate(end.unwrap_or(names.len()));
        // Memory after the table may look like a part of it, but its start is unambiguous.
        let front: String = names.iter().take(5).map(|(letter, _)| *letter).collect();
        if front != "RSDTt" {
            names = KNOWN
                .map(|(letter, word)| (letter, word.to_owned()))
                .to_vec();
        }
        Self { names }
    }

    /// Returns the letter and the name of a state.
    pub fn name(&self, state: u64, exit_state: u64) -> (char, String) {
        let reported = (1_u64 << self.names.len().saturating_sub(1)) - 1;
        let mut bits = (state | exit_state) & reported;
        if bits == UNINTERRUPTIBLE && state & NO_LOAD != 0 {
            return ('I', "idle".into());
        }
        // As the kernel reports these (__task_state_index, include/linux/sched.h).
        if bits == 0 && state & FROZEN != 0 {
            return ('D', "frozen".into());
        }
        if bits == 0 && state & LOCK_WAIT != 0 {
            bits = UNINTERRUPTIBLE;
        }
        let highest = (u64::BITS - bits.leading_zeros()) as usize;
        let found = self.names.get(highest).cloned();
        found.unwrap_or_else(|| ('?', format!("{state:#x}")))
    }
}

/// The states since 4.14.
const KNOWN: [(char, &str); 8] = [
    ('R', "running"),
    ('S', "sleeping"),
    ('D', "disk sleep"),
    ('T', "stopped"),
    ('t', "tracing stop"),
    ('X', "dead"),
    ('Z', "zombie"),
    ('P', "parked"),
];

/// Parses `S (sleeping)`.
fn parse(text: &str) -> Option<(char, String)> {
    let (letter, word) = text.split_once(" (")?;
    let word = word.strip_suffix(')')?;
    let mut letters = letter.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if letter.is_ascii_alphabetic() => Some((letter, word.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(states: &States, pairs: &[(u64, u64)]) -> String {
        pairs
            .iter()
            .map(|(state, exit)| states.name(*state, *exit).0)
            .collect()
    }

    #[test]
    fn states_match_ps() {
        let states = States::from_names(Vec::new());
        let plain = [
            (0, 0),
            (1, 0),
            (2, 0),
            (4, 0),
            (8, 0),
            (0x80, 0x10),
            (0, 0x20),
            (0x40, 0),
        ];
        assert_eq!(letters(&states, &plain), "RSDTtXZP");
        // Killable, freezable, idle, idle and freezable, new, waiting for a lock.
        let more = [0x102, 0x2001, 0x402, 0x2402, 0x800, 0x1000].map(|state| (state, 0));
        assert_eq!(letters(&states, &more), "DSIIRD");
        assert_eq!(states.name(0x8000, 0), ('D', "frozen".into()));
    }

    #[test]
    fn older_kernels_use_their_own_table() {
        let table = [
            "R (running)",
            "S (sleeping)",
            "D (disk sleep)",
            "T (stopped)",
            "t (tracing stop)",
            "Z (zombie)",
            "X (dead)",
            "x (dead)",
            "K (wakekill)",
        ];
        let names = table.iter().filter_map(|text| parse(text)).collect();
        let states = States::from_names(names);
        assert_eq!(letters(&states, &[(0, 16), (0, 32), (0x40, 0)]), "ZXR");
    }

    #[test]
    fn invalid_table_is_ignored() {
        assert_eq!(parse("RR (running)"), None);
        assert_eq!(parse("(running)"), None);
        let odd = States::from_names(vec![('Z', "zzz".into())]);
        assert_eq!(odd, States::from_names(Vec::new()));
    }
}
