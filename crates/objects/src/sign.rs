//! AWS Signature Version 4, in the Authorization header ("Signature Calculations for the
//! Authorization Header: Transferring Payload in a Single Chunk", Amazon S3 API Reference).

use std::fmt::Write as _;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::credentials::Keys;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "s3";

/// A request, as it is signed.
#[derive(Debug)]
pub struct Unsigned<'a> {
    /// The method.
    pub method: &'a str,
    /// The path as it is sent, percent-encoded once.
    pub path: &'a str,
    /// Names and values, not encoded.
    pub query: &'a [(&'a str, String)],
    /// Names in lower case and values, all of which are signed; `host` is among them.
    pub headers: &'a [(&'a str, String)],
    /// SHA-256 of the body in hexadecimal digits.
    pub body_hash: &'a str,
    /// The time as `20130524T000000Z`, which is also the header x-amz-date.
    pub time: &'a str,
    /// The region.
    pub region: &'a str,
}

/// Returns the value of the header Authorization.
pub fn authorization(request: &Unsigned<'_>, keys: &Keys) -> String {
    let mut headers: Vec<_> = request.headers.iter().collect();
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!(
        "{}\n{}\n{}\n",
        request.method,
        request.path,
        query(request.query)
    );
    for (name, value) in headers {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let _ = write!(canonical, "\n{names}\n{}", request.body_hash);
    let date = request.time.get(..8).unwrap_or_default();
    let scope = format!("{date}/{}/{SERVICE}/aws4_request", request.region);
    let text = format!(
        "{ALGORITHM}\n{}\n{scope}\n{}",
        request.time,
        hash(canonical.as_bytes())
    );
    let mut key = hmac(format!("AWS4{}", keys.secret.0).as_bytes(), date.as_bytes());
    for part in [request.region, SERVICE, "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = hexadecimal(&hmac(&key, text.as_bytes()));
    format!(
        "{ALGORITHM} Credential={}/{scope},SignedHeaders={names},Signature={signature}",
        keys.id
    )
}

/// Returns the query string, sorted and encoded, as it is signed and sent.
pub fn query(pairs: &[(&str, String)]) -> String {
    let mut encoded: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name, false), encode(value, false)))
        .collect();
    encoded.sort();
    encoded.join("&")
}

/// Percent-encodes all but the unreserved characters of RFC 3986; of a path, `/` stays.
pub fn encode(text: &str, is_path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            b'/' if is_path => out.push('/'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// SHA-256 in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// HMAC of SHA-256.
pub fn hmac(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    // A key of any length is allowed.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(bytes);
    mac.finalize().into_bytes().to_vec()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Secret;

    /// Signs an example of the Amazon S3 API Reference, and returns its signature.
    fn example(
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&'static str, &str)],
        body: &[u8],
    ) -> String {
        let body_hash = hash(body);
        let time = "20130524T000000Z";
        let query: Vec<_> = query
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        let fixed = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-content-sha256", &*body_hash),
            ("x-amz-date", time),
        ];
        let headers: Vec<_> = headers
            .iter()
            .chain(&fixed)
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned()),
            token: None,
            expires: None,
        };
        let path = encode(path, true);
        let request = Unsigned {
            method,
            path: &path,
            query: &query,
            headers: &headers,
            body_hash: &body_hash,
            time,
            region: "us-east-1",
        };
        let signed = authorization(&request, &keys);
        signed.rsplit('=').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn get_of_a_range_is_signed_as_published() {
        assert_eq!(
            example("GET", "/test.txt", &[], &[("range", "bytes=0-9")], b""),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn put_is_signed_as_published() {
        let headers = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        assert_eq!(
            example(
                "PUT",
                "/test$file.text",
                &[],
                &headers,
                b"Welcome to Amazon S3."
            ),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
    }

    #[test]
    fn queries_are_signed_as_published() {
        assert_eq!(
            example("GET", "/", &[("lifecycle", "")], &[], b""),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            example("GET", "/", &[("prefix", "J"), ("max-keys", "2")], &[], b""),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn paths_keep_their_slashes() {
        assert_eq!(encode("/a b/ü+%~", true), "/a%20b/%C3%BC%2B%25~");
        assert_eq!(encode("a/b", false), "a%2Fb");
    }
}
