//! The topics of `bigiron info`.

use bigiron_inspect::InspectError;
use serde::Serialize;
use serde_json::Value;

use super::page::Page;

/// A requested topic: its data, as JSON and as text.
pub struct Topic {
    /// JSON name.
    pub name: &'static str,
    /// The result as JSON.
    pub json: Value,
    /// Adds the result as text to a page.
    pub text: Box<dyn Fn(&mut Page)>,
}

impl Topic {
    /// Creates a topic from a result, or from the reason why it is unknown.
    pub fn of<T: Serialize + 'static>(
        name: &'static str,
        found: Result<T, InspectError>,
        text: impl Fn(&T, &mut Page) + 'static,
    ) -> anyhow::Result<Self> {
        Ok(match found {
            Ok(found) => Self {
                name,
                json: serde_json::to_value(&found)?,
                text: Box::new(move |page| text(&found, page)),
            },
            Err(error) => Self::unknown(name, &error.to_string()),
        })
    }

    /// Creates a topic that is unknown for a reason.
    pub fn unknown(name: &'static str, reason: &str) -> Self {
        let reason = reason.to_owned();
        Self {
            name,
            json: serde_json::json!({ "not_known": reason }),
            text: Box::new(move |page| page.line("", &format!("{name}: not known: {reason}"))),
        }
    }
}

/// Formats nanoseconds as seconds.
pub fn seconds(nanoseconds: u64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1e9)
}
