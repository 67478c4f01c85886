//! Numbers, parsed as by makedumpfile's C functions.

/// Parses like atoi(3): leading digits, 0 if there are none.
pub fn atoi(text: &str) -> i64 {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(digits.len());
    sign * digits[..end].parse::<i64>().unwrap_or(0)
}

/// Parses like strtoul(3), with the base from the prefix; text after the number is ignored.
pub fn strtoul(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let (digits, base) = if let Some(rest) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        (rest, 16)
    } else if let Some(rest) = text.strip_prefix('0') {
        (rest, 8)
    } else {
        (text, 10)
    };
    let end = digits
        .find(|letter: char| !letter.is_digit(base))
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], base).ok()
}

/// Parses a size with a suffix K, M, G, T, P or E, like the kernel's memparse().
pub fn memparse(text: &str) -> Option<u64> {
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        'P' => (&text[..text.len() - 1], 50),
        'E' => (&text[..text.len() - 1], 60),
        _ => (text, 0),
    };
    let hexadecimal = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let number = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_in_c() {
        assert_eq!((atoi(" 12x"), atoi("-3"), atoi("x")), (12, -3, 0));
        assert_eq!(strtoul("0xffffffff81000000"), Some(0xffff_ffff_8100_0000));
        assert_eq!(
            (strtoul("010"), strtoul("10,"), strtoul("zz")),
            (Some(8), Some(10), None)
        );
        assert_eq!(
            (memparse("1M"), memparse("0x10k"), memparse("7")),
            (Some(1 << 20), Some(16384), Some(7))
        );
        assert_eq!(
            (memparse(""), memparse("1X"), memparse("99E"), memparse("M")),
            (None, None, None, None)
        );
    }
}
