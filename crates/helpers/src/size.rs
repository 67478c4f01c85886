//! Sizes as people read them.

/// Writes `1.5 GiB`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_to_be_read() {
        assert_eq!(format_size(0), "0 bytes");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(1 << 40), "1.0 TiB");
        assert_eq!(format_size(u64::MAX), "16.0 EiB");
    }
}
