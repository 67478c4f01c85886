//! Answers of a server in XML.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// Maximum depth of elements. Answers of S3 have five levels.
const MAX_DEPTH: usize = 16;

/// An element with its text and its children; attributes and name spaces are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// Parses a document, and returns its root. `None` if it is not XML.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::from_str(std::str::from_utf8(bytes).ok()?);
        let mut open = vec![Self::default()];
        loop {
            let event = reader.read_event().ok()?;
            match event {
                Event::Start(start) if open.len() <= MAX_DEPTH => {
                    open.push(Self::named(start.local_name().as_ref()))
                }
                Event::Start(_) => return None,
                Event::Empty(start) => {
                    let element = Self::named(start.local_name().as_ref());
                    open.last_mut()?.children.push(element);
                }
                Event::End(_) => {
                    let element = open.pop()?;
                    open.last_mut()?.children.push(element);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text),
                Event::CData(text) => open.last_mut()?.text.push_str(&text),
                Event::GeneralRef(reference) => {
                    let text = &mut open.last_mut()?.text;
                    match reference.resolve_char_ref().ok()? {
                        Some(char) => text.push(char),
                        None => text.push_str(resolve_predefined_entity(&reference)?),
                    }
                }
                Event::Eof => break,
                _ => {}
            }
        }
        match (open.pop(), open.is_empty()) {
            (Some(document), true) => document.children.into_iter().next(),
            _ => None,
        }
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Name of the element.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All children of this name.
    pub fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Text of the first child of this name; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        let child = self.children.iter().find(|child| child.name == name);
        child.map_or("", |child| child.text.trim())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn elements_have_texts_and_children() {
        // The form of an answer to ListObjectsV2.
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
              <IsTruncated>false</IsTruncated>
              <Contents><Key>a &amp; b&#x21;</Key><Size>10</Size><Owner/></Contents>
              <Contents><Key><![CDATA[<c>]]></Key><Size>11</Size></Contents>
            </ListBucketResult>"#;
        let root = Element::parse(text.as_bytes()).unwrap();
        assert_eq!(root.name(), "ListBucketResult");
        assert_eq!(root.text("IsTruncated"), "false");
        let keys: Vec<_> = root
            .all("Contents")
            .map(|entry| entry.text("Key"))
            .collect();
        assert_eq!(keys, ["a & b!", "<c>"]);
        assert_eq!(root.text("None"), "");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = "<a>".repeat(1000);
        for wrong in ["", "text", "<a>", "<a></b>", "<a>&other;</a>", &deep] {
            assert_eq!(Element::parse(wrong.as_bytes()), None, "{wrong:.20}");
        }
    }
}
