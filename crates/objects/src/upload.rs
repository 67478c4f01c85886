//! Uploads in parts.
//!
//! An object that is uploaded in parts appears when the parts are completed, and not before. Until
//! then the parts stay with the server, whoever uploaded them: another process can list and
//! complete them.

use std::fmt::Write as _;

use crate::blocks;
use crate::call::Call;
use crate::error::ObjectError;
use crate::location::{Location, Scheme};
use crate::parts::{EXISTS, MAX_PARTS, MORE_ATTEMPTS, NOT_FOUND, Part, Upload, root_of};
use crate::store::Store;

/// Names of a list of parts: Amazon's, and another one that servers use.
const PARTS: [&str; 2] = ["ListPartsResult", "ListPartsResponse"];

/// Another upload of the same name is being completed.
const CONFLICT: u16 = 409;

/// How the completion of an upload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The object is there.
    Yes,
    /// Another object has the name, and stays.
    Exists,
}

impl Store {
    /// Size of an object; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The server does not tell.
    pub fn size(&self, location: &Location) -> Result<Option<u64>, ObjectError> {
        let call = Call::new("look for it", "HEAD", location);
        self.client().send(&call, &[NOT_FOUND], |answer| {
            if answer.status == NOT_FOUND {
                return Ok(None);
            }
            let size = answer.header("content-length");
            let size = size.and_then(|size| size.parse().ok());
            Ok(Some(size.ok_or("the answer has no Content-Length")?))
        })
    }

    /// Begins an upload.
    ///
    /// # Errors
    ///
    /// The server refuses it.
    pub fn begin_upload(&self, location: &Location) -> Result<Upload, ObjectError> {
        if self.scheme() == Scheme::Azure {
            return Ok(blocks::begin_upload(location));
        }
        let call = Call {
            query: vec![("uploads", String::new())],
            ..Call::new("begin an upload", "POST", location)
        };
        self.client().send(&call, &[], |answer| {
            let root = root_of(&answer, &["InitiateMultipartUploadResult"])?;
            match root.text("UploadId") {
                "" => Err("the answer has no UploadId".to_owned()),
                id => Ok(Upload {
                    location: location.clone(),
                    id: id.to_owned(),
                    begun: String::new(),
                }),
            }
        })
    }

    /// Uploads a part, which replaces one of the same number.
    ///
    /// # Errors
    ///
    /// The server does not take it.
    pub fn put_part(
        &self,
        upload: &Upload,
        number: u32,
        bytes: &[u8],
    ) -> Result<Part, ObjectError> {
        if self.scheme() == Scheme::Azure {
            return blocks::put_part(self.client(), upload, number, bytes);
        }
        let call = Call {
            query: vec![
                ("partNumber", number.to_string()),
                ("uploadId", upload.id.clone()),
            ],
            body: bytes,
            more_attempts: MORE_ATTEMPTS,
            ..Call::new("upload a part", "PUT", &upload.location)
        };
        self.client().send(&call, &[], |answer| {
            let etag = answer.header("etag").ok_or("the answer has no ETag")?;
            Ok(Part {
                number,
                etag: etag.to_owned(),
                size: bytes.len() as u64,
            })
        })
    }

    /// The parts that the server has, by number.
    ///
    /// # Errors
    ///
    /// The server does not tell.
    pub fn parts(&self, upload: &Upload) -> Result<Vec<Part>, ObjectError> {
        if self.scheme() == Scheme::Azure {
            return blocks::parts(self.client(), upload);
        }
        let (mut parts, mut marker) = (Vec::new(), String::new());
        loop {
            let mut query = vec![("uploadId", upload.id.clone())];
            if !marker.is_empty() {
                query.push(("part-number-marker", marker.clone()));
            }
            let call = Call {
                query,
                ..Call::new("list the parts of its upload", "GET", &upload.location)
            };
            let (page, next) = self.client().send(&call, &[], |answer| {
                let root = root_of(&answer, &PARTS)?;
                let page = root.all("Part").map(|part| {
                    Some(Part {
                        number: part.text("PartNumber").parse().ok()?,
                        etag: part.text("ETag").to_owned(),
                        size: part.text("Size").parse().ok()?,
                    })
                });
                let page: Option<Vec<_>> = page.collect();
                let next = match root.text("IsTruncated") {
                    "true" => root.text("NextPartNumberMarker").to_owned(),
                    _ => String::new(),
                };
                Ok((page.ok_or("the answer has a part without a number")?, next))
            })?;
            parts.extend(page);
            // A marker that does not move would be asked for ever.
            if next.is_empty() || next == marker || parts.len() > MAX_PARTS as usize {
                parts.sort_by_key(|part| part.number);
                return Ok(parts);
            }
            marker = next;
        }
    }

    /// The uploads of an object that are not complete, the latest one first.
    ///
    /// # Errors
    ///
    /// The server does not tell.
    pub fn uploads(&self, location: &Location) -> Result<Vec<Upload>, ObjectError> {
        if self.scheme() == Scheme::Azure {
            return blocks::uploads(self.client(), location);
        }
        let bucket = location.whole_bucket();
        let call = Call {
            query: vec![("uploads", String::new()), ("prefix", location.key.clone())],
            ..Call::new("list its uploads", "GET", &bucket)
        };
        let mut uploads = self.client().send(&call, &[], |answer| {
            let root = root_of(&answer, &["ListMultipartUploadsResult"])?;
            let found = root.all("Upload");
            let found = found.filter(|upload| upload.text("Key") == location.key);
            Ok(found
                .map(|upload| Upload {
                    location: location.clone(),
                    id: upload.text("UploadId").to_owned(),
                    begun: upload.text("Initiated").to_owned(),
                })
                .collect::<Vec<_>>())
        })?;
        uploads.sort_by(|one, other| other.begun.cmp(&one.begun));
        Ok(uploads)
    }

    /// Makes an object of the parts. Without `overwrite` an object that is there stays.
    ///
    /// # Errors
    ///
    /// The server refuses it, or did not say whether it did it.
    pub fn complete(
        &self,
        upload: &Upload,
        parts: &[Part],
        overwrite: bool,
    ) -> Result<Completed, ObjectError> {
        // Not every server knows the condition.
        if !overwrite && self.size(&upload.location)?.is_some() {
            return Ok(Completed::Exists);
        }
        let answered = match self.scheme() {
            Scheme::Azure => blocks::commit(self.client(), upload, parts, overwrite),
            Scheme::S3 | Scheme::Google => self.commit(upload, parts, overwrite),
        };
        let is_refused = |status: &u16| [NOT_FOUND, EXISTS].contains(status);
        if answered.as_ref().is_ok_and(|status| !is_refused(status)) {
            return Ok(Completed::Yes);
        }
        // An earlier attempt may have done it, whose answer was lost.
        let size: u64 = parts.iter().map(|part| part.size).sum();
        let found = self.size(&upload.location)?;
        if found == Some(size) && self.is_gone(upload)? {
            return Ok(Completed::Yes);
        }
        match (answered?, found) {
            (EXISTS, _) | (_, Some(_)) => Ok(Completed::Exists),
            (status, None) => Err(ObjectError::Answer {
                url: upload.location.to_string(),
                action: "complete its upload",
                reason: format!("status {status}: the upload is not there any more"),
            }),
        }
    }

    /// Asks for the object of an upload; returns the status.
    fn commit(&self, upload: &Upload, parts: &[Part], overwrite: bool) -> Result<u16, ObjectError> {
        let mut body = String::from("<CompleteMultipartUpload>");
        for Part { number, etag, .. } in parts {
            let etag = quick_xml::escape::escape(etag);
            let _ = write!(
                body,
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            );
        }
        body.push_str("</CompleteMultipartUpload>");
        // Google's server refuses conditions here ("XML API multipart uploads").
        let headers = match overwrite || self.scheme() == Scheme::Google {
            true => Vec::new(),
            false => vec![("if-none-match", "*".to_owned())],
        };
        let call = Call {
            query: vec![("uploadId", upload.id.clone())],
            headers,
            body: body.as_bytes(),
            more_attempts: MORE_ATTEMPTS,
            ..Call::new("complete its upload", "POST", &upload.location)
        };
        let allowed = [NOT_FOUND, EXISTS, CONFLICT];
        self.client().send(&call, &allowed, |answer| {
            // An error may come after the server has begun its answer, with status 200.
            if answer.status == 200 {
                root_of(&answer, &["CompleteMultipartUploadResult"])?;
            }
            match answer.status {
                CONFLICT => Err("status 409: another upload is being completed".to_owned()),
                status => Ok(status),
            }
        })
    }

    /// Returns true if an upload was completed or aborted.
    fn is_gone(&self, upload: &Upload) -> Result<bool, ObjectError> {
        let open = self.uploads(&upload.location)?;
        Ok(open.iter().all(|other| other.id != upload.id))
    }

    /// Gives up an upload, and the parts with it.
    ///
    /// # Errors
    ///
    /// The server refuses it.
    pub fn abort(&self, upload: &Upload) -> Result<(), ObjectError> {
        if self.scheme() == Scheme::Azure {
            // Azure removes blocks that no blob has after a week.
            return Ok(());
        }
        let call = Call {
            query: vec![("uploadId", upload.id.clone())],
            ..Call::new("give up its upload", "DELETE", &upload.location)
        };
        self.client().send(&call, &[NOT_FOUND], |_| Ok(()))
    }
}
