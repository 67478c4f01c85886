//! Messages between the two processes: a header in JSON, and bytes.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::listing::Page;

/// Maximum length of a header. A page of a list has 1,000 keys of up to 1 KiB, each byte of which
/// takes up to six as an escape.
const MAX_HEADER: u32 = 8 << 20;
/// Maximum number of bytes in a message.
const MAX_BYTES: u32 = 16 << 20;

/// What the process that parses asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Open an object.
    Open(String),
    /// Read bytes of an opened object: its number, the offset and the number of bytes.
    Read(u32, u64, u32),
    /// List the objects whose names begin so, from the mark of the page before on.
    List(String, Option<String>),
    /// Remove an object.
    Remove(String),
    /// Open nothing more.
    Seal,
    /// Tell what was used.
    Usage,
    /// Begin an upload on this connection; with the truth that an object may be overwritten.
    Upload(String, bool),
    /// Append the bytes to the upload of this connection.
    Append,
    /// Make an object of the upload of this connection.
    Finish,
    /// Upload what is left, and leave the upload of this connection to be completed later.
    Leave,
    /// Give the upload of this connection up.
    Abort,
    /// Make an object of the parts of the latest upload of this name, whoever began it; with the
    /// truth that an object may be overwritten.
    Complete(String, bool),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// An object: its number and its size. The bytes are its first ones.
    Opened(u32, u64),
    /// The bytes.
    Bytes,
    /// A part of a list.
    Page(Page),
    /// It is done.
    Done,
    /// What was used.
    Usage(Usage),
    /// What was completed.
    Completed(CompletedUpload),
    /// An error.
    Failed(String),
}

/// What the requests to a server cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes that were received, without headers.
    pub bytes: u64,
    /// Requests that were sent.
    pub requests: u64,
}

/// An upload that another process has left, and that is an object now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedUpload {
    /// Number of its parts.
    pub parts: usize,
    /// Parts that were not used, since one before them is missing.
    pub unused: usize,
    /// Size of the object in bytes.
    pub bytes: u64,
    /// When it began, as the server says.
    pub begun: String,
}

/// Writes a message.
pub fn send(out: &mut dyn Write, header: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut front = Vec::with_capacity(header.len() + 8);
    front.extend(u32::try_from(header.len()).map_err(too_long)?.to_le_bytes());
    front.extend(u32::try_from(bytes.len()).map_err(too_long)?.to_le_bytes());
    front.extend(header);
    out.write_all(&front)?;
    out.write_all(bytes)
}

/// Reads a message; `None` at the end of the stream.
pub fn receive<T: DeserializeOwned>(from: &mut dyn Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 8];
    match from.read_exact(&mut lengths) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let [a, b, c, d, e, f, g, h] = lengths;
    let (header, bytes) = (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    );
    if header > MAX_HEADER || bytes > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let header = read(from, header)?;
    let bytes = read(from, bytes)?;
    Ok(Some((serde_json::from_slice(&header)?, bytes)))
}

fn read(from: &mut dyn Read, len: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn messages_arrive_in_order_and_the_end_is_seen() {
        let mut stream = Vec::new();
        send(&mut stream, &Request::Read(1, 2, 3), b"").unwrap();
        send(&mut stream, &Reply::Opened(4, 5), b"front").unwrap();
        let mut from = stream.as_slice();
        let (request, bytes) = receive::<Request>(&mut from).unwrap().unwrap();
        assert_eq!((request, &*bytes), (Request::Read(1, 2, 3), &b""[..]));
        let (reply, bytes) = receive::<Reply>(&mut from).unwrap().unwrap();
        assert_eq!((reply, &*bytes), (Reply::Opened(4, 5), &b"front"[..]));
        assert!(receive::<Reply>(&mut from).unwrap().is_none());
    }

    #[test]
    fn messages_that_are_too_long_or_cut_are_errors() {
        let long = [0xff; 8];
        assert!(receive::<Reply>(&mut &long[..]).is_err());
        let mut stream = Vec::new();
        send(&mut stream, &Reply::Bytes, &[0; 100]).unwrap();
        assert!(receive::<Reply>(&mut &stream[..stream.len() - 1]).is_err());
    }
}
