//! Length-limited Huffman codes in canonical form (RFC 1951, 3.2.2).

/// Upper bound of the number of symbols in a deflate alphabet.
const MAX_SYMBOLS: usize = 288;
/// Counts below this are sorted without comparisons.
const SMALL_COUNT: usize = 64;
/// Maximum code length of any alphabet.
const MAX_BITS: usize = 15;
/// Maximum tree depth: reached by a Fibonacci sequence of counts with a sum below 2^32.
const MAX_DEPTH: usize = 48;

/// A code: its symbols and their code lengths.
pub(super) struct Code {
    symbols: [u16; MAX_SYMBOLS],
    used: usize,
    /// 0 for an unused symbol.
    pub lengths: [u8; MAX_SYMBOLS],
}

/// Working memory for building codes, reused for each.
pub(super) struct Builder {
    /// Used symbols as `count << 9 | symbol`, sorted.
    sorted: [u32; MAX_SYMBOLS + 1],
    /// Counts of the inner nodes in order of creation, which is sorted.
    nodes: [u32; MAX_SYMBOLS + 1],
    /// Parent of each inner node. Leaves write theirs to an unused entry after the last.
    parents: [u16; MAX_SYMBOLS + 1],
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            sorted: [0; MAX_SYMBOLS + 1],
            nodes: [0; MAX_SYMBOLS + 1],
            parents: [0; MAX_SYMBOLS + 1],
        }
    }

    /// Computes code lengths from symbol counts: optimal unless limited by `max_bits`. The sum
    /// of all counts must be below 2^22.
    pub(super) fn lengths(&mut self, counts: &[u32], max_bits: usize, code: &mut Code) {
        code.lengths.fill(0);
        self.sort(counts, code);
        if code.used < 2 {
            // A code with one symbol is incomplete, and with none empty, which some decoders
            // reject. Like zlib, give such a code two symbols.
            let first = match code.used {
                0 => 0,
                _ => code.symbols[0],
            };
            code.symbols[0] = first.min(u16::from(first == 0));
            code.symbols[1] = first.max(1);
            code.used = 2;
            for &symbol in &code.symbols[..2] {
                code.lengths[usize::from(symbol)] = 1;
            }
            return;
        }
        let mut leaves = self.tree(code.used);
        limit(&mut leaves, max_bits);
        let mut symbols = self.sorted[..code.used].iter();
        for bits in (1..=max_bits).rev() {
            for symbol in symbols.by_ref().take(usize::from(leaves[bits])) {
                code.lengths[(symbol & 511) as usize] = bits as u8;
            }
        }
    }

    /// Collects the used symbols and sorts them by count.
    fn sort(&mut self, counts: &[u32], code: &mut Code) {
        let mut used = 0;
        for (symbol, &count) in counts.iter().enumerate().take(MAX_SYMBOLS) {
            code.symbols[used.min(MAX_SYMBOLS - 1)] = symbol as u16;
            used += usize::from(count != 0);
        }
        code.used = used;
        let mut places = [0u16; SMALL_COUNT + 1];
        let place = |count: u32| count.min(SMALL_COUNT as u32) as usize;
        for &symbol in &code.symbols[..used] {
            places[place(counts[usize::from(symbol)])] += 1;
        }
        let mut sum = 0;
        for next in &mut places {
            sum += std::mem::replace(next, sum);
        }
        let large = usize::from(places[SMALL_COUNT]);
        for &symbol in &code.symbols[..used] {
            let count = counts[usize::from(symbol)];
            let next = &mut places[place(count)];
            self.sorted[usize::from(*next)] = count << 9 | u32::from(symbol);
            *next += 1;
        }
        self.sorted[large..used].sort_unstable();
    }

    /// Builds the Huffman tree of two or more sorted symbols, and returns the number of leaves
    /// at each depth.
    ///
    /// Two queues, of leaves and of inner nodes, are both sorted, so the two smallest are
    /// always at their heads.
    fn tree(&mut self, used: usize) -> [u16; MAX_DEPTH] {
        const NONE: u32 = u32::MAX;
        let inner = used - 1;
        self.sorted[used] = NONE;
        self.nodes[..=used].fill(NONE);
        let (mut leaf, mut node) = (0, 0);
        for new in 0..inner {
            let mut sum = 0;
            for _ in 0..2 {
                let (a, b) = (self.sorted[leaf] >> 9, self.nodes[node]);
                let is_leaf = a <= b;
                sum += if is_leaf { a } else { b };
                self.parents[if is_leaf { MAX_SYMBOLS } else { node }] = new as u16;
                leaf += usize::from(is_leaf);
                node += usize::from(!is_leaf);
            }
            self.nodes[new] = sum;
        }
        // From here on `nodes` holds depths. Each depth has space for two nodes per inner node
        // above it; those that are not inner nodes are leaves.
        let mut leaves = [0; MAX_DEPTH];
        self.nodes[inner - 1] = 0;
        leaves[1] = 2;
        for node in (0..inner - 1).rev() {
            let depth = self.nodes[usize::from(self.parents[node])] + 1;
            self.nodes[node] = depth;
            let depth = depth as usize;
            leaves[depth] -= 1;
            leaves[depth + 1] += 2;
        }
        leaves
    }
}

/// Moves leaves up to `max_bits`, and others down to make space for them.
fn limit(leaves: &mut [u16; MAX_DEPTH], max_bits: usize) {
    let mut deeper = 0;
    for depth in (max_bits + 1..MAX_DEPTH).rev() {
        deeper += std::mem::take(&mut leaves[depth]);
    }
    if deeper == 0 {
        return;
    }
    leaves[max_bits] += deeper;
    // Number of surplus leaves at depth `max_bits`; one at the depth above replaces two.
    let mut excess = 0;
    for (depth, &count) in leaves.iter().enumerate().take(max_bits + 1) {
        excess += u32::from(count) << (max_bits - depth);
    }
    excess -= 1 << max_bits;
    // A leaf becomes an inner node, whose children are itself and one from the bottom.
    for _ in 0..excess {
        if let Some(depth) = (1..max_bits).rev().find(|&depth| leaves[depth] > 0) {
            leaves[depth] -= 1;
            leaves[depth + 1] += 2;
            leaves[max_bits] -= 1;
        }
    }
}

impl Code {
    pub(super) fn new() -> Self {
        Self {
            symbols: [0; MAX_SYMBOLS],
            used: 0,
            lengths: [0; MAX_SYMBOLS],
        }
    }

    /// Creates the code with these lengths.
    pub(super) fn of(lengths: &[u8]) -> Self {
        let mut code = Self::new();
        code.lengths[..lengths.len()].copy_from_slice(lengths);
        for symbol in (0..lengths.len()).filter(|&symbol| lengths[symbol] > 0) {
            code.symbols[code.used] = symbol as u16;
            code.used += 1;
        }
        code
    }

    /// The code lengths up to the last used symbol.
    pub(super) fn lengths_to_last(&self) -> &[u8] {
        match self.symbols[..self.used].last() {
            Some(&last) => &self.lengths[..=usize::from(last)],
            None => &[],
        }
    }

    /// Calls `take` with each symbol, its code length and its canonical code, first bit lowest.
    pub(super) fn each(&self, mut take: impl FnMut(usize, u8, u16)) {
        let mut next = [0u16; MAX_BITS + 1];
        for &symbol in &self.symbols[..self.used] {
            next[usize::from(self.lengths[usize::from(symbol)] & 15)] += 1;
        }
        // Codes with the first bit highest, which is how they are counted.
        let mut code = 0u16;
        for (len, next) in next.iter_mut().enumerate().skip(1) {
            let count = std::mem::replace(next, code);
            code = code.wrapping_add(count << (16 - len));
        }
        for &symbol in &self.symbols[..self.used] {
            let symbol = usize::from(symbol);
            let len = self.lengths[symbol];
            let next = &mut next[usize::from(len & 15)];
            take(symbol, len, next.reverse_bits());
            *next = next.wrapping_add((0x1_0000u32 >> len) as u16);
        }
    }
}

/// A code of up to 15 bits, from bit 8; the lowest byte is its length, the highest its length
/// including the extra bits.
///
/// An entry, or a sum of entries, can therefore be used as a shift count, of which the CPU uses
/// only the lowest six bits.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry(u32);

impl Entry {
    pub(super) fn new(code: u16, len: u8, extra: u8) -> Self {
        Self(u32::from(len) | u32::from(code) << 8 | u32::from(len + extra) << 24)
    }

    /// Returns an empty entry if the mask is 0.
    #[inline(always)]
    pub(super) fn masked(self, mask: u32) -> Self {
        Self(self.0 & mask)
    }

    /// Returns an entry with the combined length of both; its code is meaningless.
    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    #[inline(always)]
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0 >> 8 & 0x7fff)
    }

    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        self.0 & 63
    }

    #[inline(always)]
    pub(super) fn whole_len(self) -> u32 {
        self.0 >> 24
    }
}

/// Returns the number of bits of all codes: the sum of the products of counts and lengths.
pub(super) fn code_bits(counts: &[u32], lengths: &[u8]) -> u32 {
    counts
        .iter()
        .zip(lengths)
        .map(|(count, &len)| count * u32::from(len))
        .sum()
}
