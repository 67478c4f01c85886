//! Sizes as people write and read them.

pub use bigiron_helpers::format_size as format;

/// Takes `64M`, `1.5G`, `4096`: binary units, with or without a `B` or `iB`.
pub fn parse(text: &str) -> Result<u64, String> {
    let error = || format!("{text:?} is no size; write it like 64M or 2G");
    let upper = text.trim().to_ascii_uppercase();
    let trimmed = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (digits, shift) = match trimmed.chars().last() {
        Some('K') => (&trimmed[..trimmed.len() - 1], 10),
        Some('M') => (&trimmed[..trimmed.len() - 1], 20),
        Some('G') => (&trimmed[..trimmed.len() - 1], 30),
        Some('T') => (&trimmed[..trimmed.len() - 1], 40),
        _ => (trimmed, 0),
    };
    let number: f64 = digits.parse().map_err(|_| error())?;
    let bytes = number * f64::from(1_u32 << (shift / 2)) * f64::from(1_u32 << (shift - shift / 2));
    if number > 0.0 && bytes >= 1.0 && bytes < 2_f64.powi(63) {
        Ok(bytes as u64)
    } else {
        Err(error())
    }
}

/// The same, or 0 for nothing.
#[cfg(feature = "inspect")]
pub fn parse_or_zero(text: &str) -> Result<u64, String> {
    match text.trim() {
        "0" => Ok(0),
        size => parse(size),
    }
}

/// Takes the size of a vmdump's chunks.
pub fn chunk(text: &str) -> Result<u32, String> {
    let bytes = parse(text)?;
    let fits = (64 << 10..=4 << 20).contains(&bytes) && bytes.is_power_of_two();
    u32::try_from(bytes)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| format!("{text:?} is no power of two from 64K to 4M"))
}

/// Writes `1,234,567`.
pub fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64M"), Ok(64 << 20));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("1.5g"), Ok(3 << 29));
        for bad in ["", "M", "-1", "0", "nan", "inf", "1e300", "12X"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_written_to_be_read() {
        assert_eq!(
            (group(0), group(999), group(1000)),
            ("0".into(), "999".into(), "1,000".into())
        );
        assert_eq!(group(1_234_567), "1,234,567");
    }
}
