//! What is asked of a server: bytes of objects, and lists of them.

use std::ops::Range;

use jiff::Timestamp;

use crate::answer::Answer;
use crate::azure::Azure;
use crate::blocks;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::http::Client;
use crate::listing::{Listed, Page};
use crate::location::{Location, Scheme};
use crate::settings::Settings;
use crate::xml::Element;

/// Bytes that are read of an object when it is opened.
pub const FRONT: u64 = 64 << 10;
/// Maximum number of bytes in one request.
pub const MAX_RANGE: u64 = 16 << 20;

/// An object that was opened.
#[derive(Clone, Debug)]
pub struct Object {
    /// Where it lies.
    pub location: Location,
    /// Size in bytes.
    pub size: u64,
    /// The mark of its contents, which another object of the same name does not have.
    pub etag: String,
}

/// The objects of a server.
#[derive(Debug)]
pub struct Store {
    client: Client,
    scheme: Scheme,
}

impl Store {
    /// The server of objects of this scheme that the environment and the profile name.
    ///
    /// # Errors
    ///
    /// They are wrong, or there are no credentials.
    pub fn new(environment: &Environment, scheme: Scheme) -> Result<Self, ObjectError> {
        let client = Client::new(dialect_of(environment, scheme)?);
        Ok(Self { client, scheme })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The scheme of its objects.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// How the server is spoken to.
    pub fn dialect(&self) -> &dyn Dialect {
        self.client.dialect()
    }

    /// Bytes that were received, and requests that were sent.
    pub fn counts(&self) -> (u64, u64) {
        self.client.counts()
    }

    /// Opens an object by reading its first bytes, 64 KiB or all, which are returned as well.
    ///
    /// # Errors
    ///
    /// It is not there, cannot be read, or the server does not read ranges.
    pub fn open(&self, location: &Location) -> Result<(Object, Vec<u8>), ObjectError> {
        let call = Call {
            headers: vec![("range", format!("bytes=0-{}", FRONT - 1))],
            limit: FRONT,
            ..Call::new("open it", "GET", location)
        };
        /// Status of a range that does not begin within the object: it is empty.
        const NO_RANGE: u16 = 416;
        self.client.send(&call, &[NO_RANGE], |answer| {
            let etag = answer.header("etag").unwrap_or_default().to_owned();
            let whole = answer.body.len() as u64;
            let size = match answer.status {
                NO_RANGE => 0,
                206 => range_of(&answer)?.1,
                // A server may answer so if the range is the whole object.
                _ if whole <= FRONT => whole,
                _ => return Err("the server does not read ranges".to_owned()),
            };
            let front = match answer.status {
                NO_RANGE => Vec::new(),
                _ => answer.body,
            };
            if front.len() as u64 != size.min(FRONT) {
                return Err(format!("the answer has {} bytes of {size}", front.len()));
            }
            let location = location.clone();
            let object = Object {
                location,
                size,
                etag,
            };
            Ok((object, front))
        })
    }

    /// Reads bytes of an object; `range` is within it, and has at most 16 MiB.
    ///
    /// # Errors
    ///
    /// It cannot be read, or was replaced.
    pub fn read(&self, object: &Object, range: &Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let Range { start, end } = *range;
        let mut headers = vec![("range", format!("bytes={start}-{}", end - 1))];
        if !object.etag.is_empty() {
            headers.push(("if-match", object.etag.clone()));
        }
        let call = Call {
            headers,
            limit: end - start,
            ..Call::new("read it", "GET", &object.location)
        };
        let changed = || ObjectError::Changed {
            url: object.location.to_string(),
        };
        /// Status if the object has another mark than [`Object::etag`].
        const CHANGED: u16 = 412;
        let answer = self.client.send(&call, &[CHANGED], |answer| {
            if answer.status == CHANGED {
                return Ok(None);
            }
            // Not every server compares the mark itself.
            if answer.header("etag").unwrap_or_default() != object.etag {
                return Ok(None);
            }
            let is_whole = answer.status == 200 && *range == (0..object.size);
            if !is_whole && range_of(&answer)?.0 != *range {
                return Err("the answer is of other bytes".to_owned());
            }
            match answer.body.len() as u64 == end - start {
                true => Ok(Some(answer.body)),
                false => Err(format!(
                    "the answer has {} of {} bytes",
                    answer.body.len(),
                    end - start
                )),
            }
        })?;
        answer.ok_or_else(changed)
    }

    /// Removes an object. One that is not there is removed.
    ///
    /// # Errors
    ///
    /// The server refuses it.
    pub fn remove(&self, location: &Location) -> Result<(), ObjectError> {
        const NOT_FOUND: u16 = 404;
        let call = Call::new("remove it", "DELETE", location);
        self.client.send(&call, &[NOT_FOUND], |_| Ok(()))
    }

    /// Lists objects whose keys begin with that of `prefix`, from `next` of the page before on.
    ///
    /// # Errors
    ///
    /// The bucket cannot be listed.
    pub fn list(&self, prefix: &Location, next: Option<String>) -> Result<Page, ObjectError> {
        if self.scheme == Scheme::Azure {
            return blocks::list(self.client(), prefix, next);
        }
        let bucket = prefix.whole_bucket();
        let mut query = vec![
            ("list-type", "2".to_owned()),
            ("prefix", prefix.key.clone()),
        ];
        query.extend(next.map(|next| ("continuation-token", next)));
        let call = Call {
            query,
            ..Call::new("list it", "GET", &bucket)
        };
        self.client.send(&call, &[], |answer| {
            page_of(&answer).ok_or_else(|| "the answer is no list of objects".to_owned())
        })
    }
}

/// The range of bytes in an answer, and the size of the object.
fn range_of(answer: &Answer) -> Result<(Range<u64>, u64), String> {
    let text = answer.header("content-range").unwrap_or_default();
    let numbers = text.strip_prefix("bytes ").and_then(|rest| {
        let (range, size) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let end = last.parse::<u64>().ok()?.checked_add(1)?;
        Some((first.parse().ok()?..end, size.parse().ok()?))
    });
    numbers.ok_or_else(|| {
        "the server does not read ranges: its answer has no Content-Range".to_owned()
    })
}

fn page_of(answer: &Answer) -> Option<Page> {
    let root = Element::parse(&answer.body)?;
    if root.name() != "ListBucketResult" {
        return None;
    }
    let objects = root.all("Contents").map(|entry| {
        let modified = entry.text("LastModified").parse::<Timestamp>().ok()?;
        Some(Listed {
            key: entry.text("Key").to_owned(),
            size: entry.text("Size").parse().ok()?,
            modified: modified.as_millisecond(),
        })
    });
    let objects = objects.collect::<Option<_>>()?;
    let next = match root.text("IsTruncated") {
        "true" => Some(root.text("NextContinuationToken").to_owned()),
        _ => None,
    };
    Some(Page { objects, next })
}

/// Reads the settings of a kind of servers.
///
/// # Errors
///
/// They are wrong, or there are no credentials.
fn dialect_of(environment: &Environment, scheme: Scheme) -> Result<Box<dyn Dialect>, ObjectError> {
    Ok(match scheme {
        Scheme::S3 | Scheme::Google => Box::new(Settings::new(environment, scheme)?),
        Scheme::Azure => Box::new(Azure::new(environment)?),
    })
}
