//! The fuzzer's bytes as a sequence of choices. After their end all choices are 0.

/// Numbers at which arithmetic goes wrong.
const EXTREME: [u64; 12] = [
    0,
    1,
    u64::MAX,
    1 << 12,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 4095,
];

/// Choices that the fuzzer makes.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    /// Returns true after the last choice.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    /// A number below `end`, which is at most 65536.
    pub fn below(&mut self, end: usize) -> usize {
        let number = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        number % end.max(1)
    }

    /// `sound`, seven times of eight; otherwise any number, or one that is extreme or close to
    /// `sound`.
    pub fn number(&mut self, sound: u64) -> u64 {
        let choice = self.byte();
        if choice < 224 {
            return sound;
        }
        match choice & 3 {
            0 => EXTREME[usize::from(self.byte()) % EXTREME.len()],
            1 => sound.wrapping_add(1),
            2 => sound.wrapping_sub(1),
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }
}
