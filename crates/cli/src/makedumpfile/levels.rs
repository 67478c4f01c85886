//! The dump levels of `-d N,M`, tried in order until the dump fits.

use bigiron_kernel::DumpLevel;

use super::sizes::atoi;

/// Maximum number of levels of one `-d` (NUM_ARRAY_DUMP_LEVEL of makedumpfile).
const MAX_LEVELS: usize = 32;

/// Parses `N`, `N,M` and so on.
pub fn parse(text: &str) -> Result<Vec<DumpLevel>, String> {
    let mut levels = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let number = atoi(part);
        let level = u8::try_from(number).ok().and_then(DumpLevel::new);
        levels.push(level.ok_or_else(|| format!("Dump_level({number}) is invalid."))?);
        if levels.len() > MAX_LEVELS {
            return Err("Dump_level is invalid.".into());
        }
    }
    if levels.is_empty() {
        levels.push(DumpLevel::default());
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_keep_their_order() {
        let numbers = |text| parse(text).map(|levels| levels.iter().map(|l| l.number()).collect());
        assert_eq!(numbers("31"), Ok(vec![31]));
        assert_eq!(numbers("0,11,31"), Ok(vec![0, 11, 31]));
        assert_eq!(numbers("x"), Ok(vec![0]));
        assert_eq!(numbers("1,32"), Err("Dump_level(32) is invalid.".into()));
        assert_eq!(numbers("-1"), Err("Dump_level(-1) is invalid.".into()));
    }
}
