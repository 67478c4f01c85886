//! Sizes as users write and read them.

/// Formats a size with a binary unit: `1.5 GiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).unwrap_or(&"bytes"))
}

/// Parses `64M`, `1.5G` or `4096`: binary units, with or without a `B` or `iB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let error = || format!("invalid size {text:?}; expected a number such as 64M or 2G");
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

/// Formats a number with separators: `1,234,567`.
pub fn group_digits(number: u64) -> String {
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
    fn sizes_are_formatted_with_binary_units() {
        assert_eq!(format_size(0), "0 bytes");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(1 << 40), "1.0 TiB");
        assert_eq!(format_size(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn sizes_are_parsed_with_binary_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1.5g"), Ok(3 << 29));
        for invalid in ["", "M", "-1", "0", "nan", "inf", "1e300", "12X"] {
            assert!(parse_size(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn digits_are_grouped_by_thousands() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1000), "1,000");
        assert_eq!(group_digits(1_234_567), "1,234,567");
    }
}
