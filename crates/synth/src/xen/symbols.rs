//! The hypervisor's own table of symbols (xen/tools/symbols.c): names made of tokens, and offsets
//! from the start of the image's address range.

/// Characters that two-letter tokens replace.
const PAIRS: [(u8, &[u8; 2]); 3] = [(1, b"al"), (2, b"pa"), (3, b"ge")];
/// Symbols between markers of the names.
const MARKED: usize = 256;

/// Returns the table's bytes for symbols with a type, in ascending order of offsets.
pub(super) fn table(symbols: &[(u32, String)]) -> Vec<u8> {
    let tokens: Vec<Vec<u8>> = (0..=255_u8)
        .map(
            |token| match PAIRS.iter().find(|(number, _)| *number == token) {
                Some((_, pair)) => pair.to_vec(),
                None if token.is_ascii_graphic() => vec![token],
                None => Vec::new(),
            },
        )
        .collect();
    let mut bytes: Vec<u8> = symbols
        .iter()
        .flat_map(|(at, _)| at.to_le_bytes())
        .collect();
    align(&mut bytes, 4);
    bytes.extend((symbols.len() as u32).to_le_bytes());
    let mut markers = Vec::new();
    let mut names = Vec::new();
    for (index, (_, name)) in symbols.iter().enumerate() {
        if index % MARKED == 0 {
            markers.push(names.len() as u32);
        }
        let name = tokens_of(name.as_bytes());
        names.push(name.len() as u8);
        names.extend(name);
    }
    bytes.extend(names);
    align(&mut bytes, 8);
    bytes.extend(markers.iter().flat_map(|marker| marker.to_le_bytes()));
    align(&mut bytes, 4);
    let mut index = Vec::new();
    let mut text = Vec::new();
    for token in &tokens {
        index.push(text.len() as u16);
        text.extend(token);
        text.push(0);
    }
    bytes.extend(text);
    align(&mut bytes, 4);
    bytes.extend(index.iter().flat_map(|at| at.to_le_bytes()));
    bytes
}

fn tokens_of(mut name: &[u8]) -> Vec<u8> {
    let mut tokens = Vec::new();
    while let Some(first) = name.first() {
        let pair = PAIRS.iter().find(|(_, pair)| name.starts_with(*pair));
        tokens.push(pair.map_or(*first, |(token, _)| *token));
        name = &name[if pair.is_some() { 2 } else { 1 }..];
    }
    tokens
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}
