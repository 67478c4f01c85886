//! Blobs of Azure: lists, and uploads in blocks (Azure Storage REST API, "List Blobs", "Put Block",
//! "Put Block List", "Get Block List").
//!
//! There are no uploads as S3 has them. A blob may have blocks that are not committed, whoever put
//! them; committing a list of blocks makes the blob. So the name of a block says which upload it
//! belongs to, and which part it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::call::Call;
use crate::error::ObjectError;
use crate::http::Client;
use crate::listing::{Listed, Page};
use crate::location::Location;
use crate::parts::{EXISTS, MORE_ATTEMPTS, NOT_FOUND, Part, Upload, root_of};
use crate::xml::Element;

/// Blobs in a page of a list, as with S3.
const PAGE: &str = "1000";
/// What the names of this program's blocks begin with.
const MARK: &str = "bigiron-";
/// Maximum size of a list of blocks: a blob may have 100,000 that are not committed.
const MAX_BLOCKS: u64 = 32 << 20;
/// Status of a blob that is there, with the code BlobAlreadyExists.
const CONFLICT: u16 = 409;

/// Lists blobs, as [`crate::Store::list`] does.
pub fn list(client: &Client, prefix: &Location, next: Option<String>) -> Result<Page, ObjectError> {
    let container = prefix.whole_bucket();
    let mut query = vec![
        ("restype", "container".to_owned()),
        ("comp", "list".to_owned()),
        ("prefix", prefix.key.clone()),
        ("maxresults", PAGE.to_owned()),
    ];
    query.extend(next.map(|next| ("marker", next)));
    let call = Call {
        query,
        ..Call::new("list it", "GET", &container)
    };
    client.send(&call, &[], |answer| {
        let root = root_of(&answer, &["EnumerationResults"])?;
        page_of(&root).ok_or_else(|| "the answer has a blob without size or time".to_owned())
    })
}

fn page_of(root: &Element) -> Option<Page> {
    let blobs = root.all("Blobs").flat_map(|blobs| blobs.all("Blob"));
    let objects = blobs.map(|blob| {
        let properties = blob.all("Properties").next()?;
        let modified = rfc2822::parse(properties.text("Last-Modified")).ok()?;
        Some(Listed {
            key: blob.text("Name").to_owned(),
            size: properties.text("Content-Length").parse().ok()?,
            modified: modified.timestamp().as_millisecond(),
        })
    });
    let next = root.text("NextMarker");
    Some(Page {
        objects: objects.collect::<Option<_>>()?,
        next: (!next.is_empty()).then(|| next.to_owned()),
    })
}

/// Begins an upload: gives it a name. Names of later uploads are greater.
pub fn begin_upload(location: &Location) -> Upload {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let (milliseconds, nanoseconds) =
        now.map_or((0, 0), |now| (now.as_millis(), now.subsec_nanos()));
    // Two machines may begin within a millisecond.
    let other = nanoseconds ^ std::process::id().rotate_left(16);
    Upload {
        location: location.clone(),
        id: format!("{MARK}{milliseconds:013}-{other:08x}"),
        begun: String::new(),
    }
}

/// When an upload began; empty if its name does not say.
fn begun(id: &str) -> String {
    let number = id
        .strip_prefix(MARK)
        .and_then(|rest| rest.split('-').next());
    let time = number.and_then(|number| Timestamp::from_millisecond(number.parse().ok()?).ok());
    time.map_or_else(String::new, |time| time.to_string())
}

/// Name of a block. All names of a blob's blocks must have one length.
fn block_name(id: &str, number: u32) -> String {
    BASE64.encode(format!("{id}-{number:05}"))
}

/// The upload and the number of a block; `None` for one that another program has put.
fn parse_name(name: &str) -> Option<(String, u32)> {
    let text = String::from_utf8(BASE64.decode(name).ok()?).ok()?;
    let (id, number) = text.rsplit_once('-')?;
    let is_ours = id.starts_with(MARK);
    Some((id.to_owned(), number.parse().ok()?)).filter(|_| is_ours)
}

/// Puts a part, as [`crate::Store::put_part`] does.
pub fn put_part(
    client: &Client,
    upload: &Upload,
    number: u32,
    bytes: &[u8],
) -> Result<Part, ObjectError> {
    let name = block_name(&upload.id, number);
    let call = Call {
        query: vec![("comp", "block".to_owned()), ("blockid", name.clone())],
        body: bytes,
        more_attempts: MORE_ATTEMPTS,
        ..Call::new("upload a part", "PUT", &upload.location)
    };
    client.send(&call, &[], |_| {
        Ok(Part {
            number,
            etag: name.clone(),
            size: bytes.len() as u64,
        })
    })
}

/// The parts of all uploads of a blob, by upload.
fn blocks(
    client: &Client,
    location: &Location,
) -> Result<BTreeMap<String, Vec<Part>>, ObjectError> {
    let call = Call {
        query: vec![
            ("comp", "blocklist".to_owned()),
            ("blocklisttype", "uncommitted".to_owned()),
        ],
        limit: MAX_BLOCKS,
        ..Call::new("list the parts of its uploads", "GET", location)
    };
    client.send(&call, &[NOT_FOUND], |answer| {
        let mut found: BTreeMap<String, Vec<Part>> = BTreeMap::new();
        if answer.status == NOT_FOUND {
            return Ok(found);
        }
        let root = root_of(&answer, &["BlockList"])?;
        let blocks = root
            .all("UncommittedBlocks")
            .flat_map(|blocks| blocks.all("Block"));
        for block in blocks {
            let name = block.text("Name");
            let Some((id, number)) = parse_name(name) else {
                continue;
            };
            let size = block.text("Size").parse();
            found.entry(id).or_default().push(Part {
                number,
                etag: name.to_owned(),
                size: size.map_err(|_| "the answer has a block without a size")?,
            });
        }
        for parts in found.values_mut() {
            parts.sort_by_key(|part| part.number);
        }
        Ok(found)
    })
}

/// The uploads of a blob, as [`crate::Store::uploads`] has them.
pub fn uploads(client: &Client, location: &Location) -> Result<Vec<Upload>, ObjectError> {
    let found = blocks(client, location)?;
    let latest_first = found.into_keys().rev();
    Ok(latest_first
        .map(|id| Upload {
            location: location.clone(),
            begun: begun(&id),
            id,
        })
        .collect())
}

/// The parts of an upload, as [`crate::Store::parts`] has them.
pub fn parts(client: &Client, upload: &Upload) -> Result<Vec<Part>, ObjectError> {
    let mut found = blocks(client, &upload.location)?;
    Ok(found.remove(&upload.id).unwrap_or_default())
}

/// Makes a blob of the parts; returns the status, [`EXISTS`] if there is one that is not to be
/// overwritten.
pub fn commit(
    client: &Client,
    upload: &Upload,
    parts: &[Part],
    overwrite: bool,
) -> Result<u16, ObjectError> {
    let mut body = String::from("<BlockList>");
    for part in parts {
        // The latest: of an attempt whose answer was lost they are committed already.
        let _ = write!(body, "<Latest>{}</Latest>", part.etag);
    }
    body.push_str("</BlockList>");
    let headers = match overwrite {
        true => Vec::new(),
        false => vec![("if-none-match", "*".to_owned())],
    };
    let call = Call {
        query: vec![("comp", "blocklist".to_owned())],
        headers,
        body: body.as_bytes(),
        more_attempts: MORE_ATTEMPTS,
        ..Call::new("complete its upload", "PUT", &upload.location)
    };
    client.send(&call, &[CONFLICT, EXISTS], |answer| {
        Ok(match answer.status {
            CONFLICT => EXISTS,
            status => status,
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn blocks_say_their_upload_and_number() {
        let location: Location = "az://crashes/vmcore".parse().unwrap();
        let upload = begin_upload(&location);
        let names = [block_name(&upload.id, 1), block_name(&upload.id, 10_000)];
        assert_eq!(names[0].len(), names[1].len());
        assert_eq!(parse_name(&names[1]), Some((upload.id.clone(), 10_000)));
        assert!(begun(&upload.id).starts_with("20"), "{}", begun(&upload.id));
        for other in ["", "AAAA", "YWJj", &BASE64.encode("other-1")] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn lists_have_sizes_and_times() {
        // The form of an answer in "List Blobs".
        let text = "<EnumerationResults ServiceEndpoint=\"http://a/\" ContainerName=\"c\"><Blobs><Blob>\
            <Name>a b</Name><Properties><Last-Modified>Wed, 09 Sep 2009 09:20:02 GMT</Last-Modified>\
            <Etag>0x8CBFF45D8A29A19</Etag><Content-Length>100</Content-Length></Properties></Blob>\
            </Blobs><NextMarker>2!8</NextMarker></EnumerationResults>";
        let page = page_of(&Element::parse(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(page.next.as_deref(), Some("2!8"));
        let expected = Listed {
            key: "a b".to_owned(),
            size: 100,
            modified: 1_252_488_002_000,
        };
        assert_eq!(page.objects, [expected]);
    }
}
