//! The HTML page: a template with style, script and data.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The template.
const TEMPLATE: &str = include_str!("assets/report.html");
/// The style sheets.
const STYLE: &str = concat!(
    include_str!("assets/colours.css"),
    include_str!("assets/layout.css"),
    include_str!("assets/parts.css"),
    include_str!("assets/findings.css"),
);
/// What all pages begin their scripts with.
macro_rules! script {
    ($($file:literal),*) => {
        concat!(
            "'use strict';\n(() => {\n",
            include_str!("assets/base.js"),
            include_str!("assets/scheme.js"),
            $(include_str!(concat!("assets/", $file)),)*
            "})();\n",
        )
    };
}

/// The placeholders of the template.
const PLACEHOLDERS: [&str; 5] = [
    "{{policy}}",
    "{{title}}",
    "{{style}}",
    "{{data}}",
    "{{script}}",
];

/// A page: what it does with its data.
pub struct Page {
    title: &'static str,
    /// The scripts, in order of their dependencies.
    script: &'static str,
}

/// The report of a dump.
pub const REPORT: Page = Page {
    title: "Crash dump report",
    script: script!(
        "head.js",
        "findings.js",
        "axis.js",
        "map.js",
        "tables.js",
        "users.js",
        "time_line.js",
        "domains.js",
        "log.js",
        "main.js"
    ),
};

/// The crashes of many machines.
#[cfg(feature = "triage")]
pub const CRASHES: Page = Page {
    title: "Crashes",
    script: script!("tables.js", "crashes.js"),
};

/// Writes a page for `data`. Nothing in `data` becomes markup or code: it is inserted as text by
/// the page's own script; and the page's policy forbids all other scripts and styles, and all
/// network access.
pub fn render(page: &Page, data: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = TEMPLATE;
    for place in PLACEHOLDERS {
        let Some((before, behind)) = rest.split_once(place) else {
            continue;
        };
        out.write_all(before.as_bytes())?;
        match place {
            "{{policy}}" => out.write_all(policy(page).as_bytes())?,
            "{{title}}" => out.write_all(page.title.as_bytes())?,
            "{{style}}" => out.write_all(STYLE.as_bytes())?,
            "{{script}}" => out.write_all(page.script.as_bytes())?,
            _ => serde_json::to_writer(Escaped(out), data)?,
        }
        rest = behind;
    }
    out.write_all(rest.as_bytes())
}

/// Returns the Content-Security-Policy.
fn policy(page: &Page) -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(page.script),
        hash(STYLE)
    )
}

/// Returns the hash of an inline script or style, in the notation of a policy.
fn hash(text: &str) -> String {
    let mut name = "sha256-".to_owned();
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha256::digest(text.as_bytes());
    for three in digest.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let found = match digit <= three.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            };
            let _ = name.write_char(found);
        }
    }
    name
}

/// Writes JSON in which nothing can end the script element: `<`, `>` and `&`, which occur only
/// in strings, are escaped.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let escape: &[u8] = match byte {
                b'<' => b"\\u003c",
                b'>' => b"\\u003e",
                b'&' => b"\\u0026",
                _ => continue,
            };
            self.0.write_all(&bytes[from..at])?;
            self.0.write_all(escape)?;
            from = at + 1;
        }
        self.0.write_all(&bytes[from..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    fn pages() -> Vec<Page> {
        vec![
            REPORT,
            #[cfg(feature = "triage")]
            CRASHES,
        ]
    }

    fn rendered(page: &Page, data: &impl Serialize) -> String {
        let mut out = Vec::new();
        render(page, data, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_in_the_data_becomes_markup() {
        let hostile =
            "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&lt; {{script}}";
        for page in pages() {
            let (empty, page) = (rendered(&page, &""), rendered(&page, &hostile));
            assert_eq!(page.matches('<').count(), empty.matches('<').count());
            let data = page.split_once("id=\"data\">").unwrap().1;
            let data = data.split_once("</script>").unwrap().0;
            let back: String = serde_json::from_str(data).unwrap();
            assert_eq!(back, hostile);
        }
    }

    #[test]
    fn pages_are_self_contained_and_forbid_loading() {
        for page in pages() {
            // A script that ended early would appear as text.
            assert_eq!(page.script.matches("</").count(), 0);
            let page = rendered(&page, &"");
            for place in PLACEHOLDERS {
                assert!(!page.contains(place), "{place}");
            }
            assert!(page.contains("default-src 'none'"));
            for outside in ["http://", "https://", "src=\"", "@import", "url("] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
        assert_eq!(STYLE.matches('<').count(), 0);
    }

    #[test]
    fn hashes_are_those_that_browsers_compute() {
        // printf abc | openssl dgst -sha256 -binary | base64
        assert_eq!(
            hash("abc"),
            "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
    }
}
