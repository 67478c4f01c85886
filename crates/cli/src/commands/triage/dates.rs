//! Days in UTC.

/// Formats `2026-11-25`.
pub fn day(time: Option<i64>) -> String {
    let time = time.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d").to_string())
}

/// Parses `2026-11-25` as milliseconds since 1970.
pub fn parse_date(text: &str) -> Result<i64, String> {
    let wrong = |_| "expected a date such as 2026-11-25".to_owned();
    let date: jiff::civil::Date = text.parse().map_err(wrong)?;
    let time = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0));
    Ok(time.map_err(wrong)?.as_millisecond())
}
