//! Records of saved dumps, `info.N`.

use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::device::DumpId;

/// The contents of `info.N`.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: DumpId,
    pub number: u64,
    /// The name of the dump's file before its number.
    pub stem: String,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// The reason why the dump is incomplete.
    pub damage: Option<String>,
    /// The bytes of the source that could not be read.
    pub unreadable: Option<String>,
    /// More names and values, informational.
    pub about: Vec<(&'static str, String)>,
}

impl Record {
    /// Maximum size of a record, in bytes; longer files are not records.
    pub const MAX_BYTES: u64 = 64 << 10;

    /// Parses the text of `info.NUMBER`; returns `None` if a value is missing.
    pub fn parse(text: &str, number: u64) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        Some(Self {
            id: parse_id(value("dump")?)?,
            number,
            stem: value("file")?.split_once('.')?.0.to_owned(),
            bytes: value("bytes")?.parse().ok()?,
            damage: value("incomplete").map(ToOwned::to_owned),
            unreadable: value("unreadable").map(ToOwned::to_owned),
            about: Vec::new(),
        })
    }

    /// Formats the record.
    pub fn text(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut lines = vec![
            ("dump", self.id.to_string()),
            ("file", format!("{}.{}", self.stem, self.number)),
            ("bytes", self.bytes.to_string()),
        ];
        lines.extend(self.damage.clone().map(|why| ("incomplete", why)));
        lines.extend(self.unreadable.clone().map(|what| ("unreadable", what)));
        lines.extend(self.about.iter().cloned());
        lines.push(("saved", now.unwrap_or_default().as_secs().to_string()));
        let lines = lines.iter().map(|(name, value)| {
            let value = value.replace(|c: char| c.is_control(), " ");
            format!("{name}: {value}\n")
        });
        lines.collect()
    }
}

fn parse_id(text: &str) -> Option<DumpId> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (text.len() == 32).then(|| DumpId(number.to_be_bytes()))
}
