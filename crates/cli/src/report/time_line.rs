//! Time line of a dump: phases and waits.

use bigiron_format::vmdump::Tag;
use bigiron_kernel::{Kernel, VmdumpSource};
use serde::Serialize;
use serde_json::Value;

/// Maximum size of the JSON with a time line.
pub const MAX_TIME_LINE_BYTES: u64 = 4 << 20;
/// Maximum number of phases and helpers shown.
const MAX_PHASES: usize = 64;
const MAX_HELPERS: usize = 1024;
/// Maximum length of a phase's name.
const MAX_NAME: usize = 64;

/// The time line of a dump.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeLine {
    /// Origin of the time line, for the reader.
    from: &'static str,
    /// The phases in order.
    phases: Vec<Phase>,
    /// Seconds that each helper copied.
    helpers: Vec<f64>,
    /// Seconds that all helpers together waited for the output.
    waited_for_output: Option<f64>,
    /// Seconds that the writer waited for helpers.
    waited_for_helpers: Option<f64>,
    bytes_in: Option<u64>,
    bytes_out: Option<u64>,
    peak_memory: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Phase {
    name: String,
    seconds: f64,
}

impl TimeLine {
    /// Parses the output of `bigiron dump --json`, or a vmdump's metadata; returns `None` if it
    /// has no phases.
    pub fn parse(json: &[u8], from: &'static str) -> Option<Self> {
        let said: Value = serde_json::from_slice(json).ok()?;
        let phases = said.get("phases")?.as_array()?;
        let phase = |phase: &Value| {
            Some(Phase {
                name: phase
                    .get("name")?
                    .as_str()?
                    .chars()
                    .take(MAX_NAME)
                    .collect(),
                seconds: seconds(phase.get("seconds")?)?,
            })
        };
        let phases: Vec<_> = phases.iter().take(MAX_PHASES).filter_map(phase).collect();
        if phases.is_empty() {
            return None;
        }
        let helpers = said.get("helper_seconds").and_then(Value::as_array);
        let helpers = helpers.into_iter().flatten().take(MAX_HELPERS);
        let waited = |who| seconds(said.get("waits")?.get(who)?);
        let number = |name| said.get(name).and_then(Value::as_u64);
        Some(Self {
            from,
            phases,
            helpers: helpers.filter_map(seconds).collect(),
            waited_for_output: waited("for_output"),
            waited_for_helpers: waited("for_helpers"),
            bytes_in: number("bytes_in"),
            bytes_out: number("bytes_out"),
            peak_memory: number("peak_memory").filter(|bytes| *bytes > 0),
        })
    }
}

fn seconds(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .filter(|seconds| (0.0..1e9).contains(seconds))
}

/// Returns the time line in a vmdump.
pub(crate) fn in_dump(kernel: &Kernel) -> Option<TimeLine> {
    TimeLine::parse(
        &metadata(kernel.source().vmdump()?)?,
        "the dump's own metadata",
    )
}

/// Returns the metadata from the first part that has it.
fn metadata(dump: &VmdumpSource) -> Option<Vec<u8>> {
    dump.parts().iter().find_map(|part| {
        let place = part.file.root()?.metadata;
        if place.size > MAX_TIME_LINE_BYTES {
            return None;
        }
        part.file.read_payload(Tag::Metadata, place).ok()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn invalid_fields_are_omitted() {
        let json = br#"{"phases": [{"name": "filter", "seconds": 0.5}, {"name": 7}, {"name": "copy", "seconds": -1}],
            "helper_seconds": [1.5, "x", 1e300], "waits": {"for_output": 2.5}}"#;
        let found = TimeLine::parse(json, "a test").unwrap();
        assert_eq!(found.phases.len(), 1);
        assert_eq!(found.helpers, [1.5]);
        assert_eq!(
            (found.waited_for_output, found.waited_for_helpers),
            (Some(2.5), None)
        );
        assert_eq!(TimeLine::parse(b"{\"phases\": []}", "a test"), None);
        assert_eq!(TimeLine::parse(b"<html>", "a test"), None);
    }
}
