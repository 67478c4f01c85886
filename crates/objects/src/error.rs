//! Errors of object storage.

/// An object cannot be read, listed or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ObjectError {
    /// The name is not that of an object.
    #[error("{name}: {reason}")]
    Location {
        /// The name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A setting or the credentials are missing or wrong.
    #[error("{0}")]
    Settings(String),
    /// The server refused a request.
    #[error(
        "{url}: cannot {action}: status {status}{}: {hint}",
        said(code, message)
    )]
    Refused {
        /// The object or bucket.
        url: String,
        /// What was to be done.
        action: &'static str,
        /// HTTP status.
        status: u16,
        /// Code of S3, such as `NoSuchKey`; empty if the answer had none.
        code: String,
        /// The server's own words.
        message: String,
        /// What to do next.
        hint: &'static str,
    },
    /// The server was not reached, or did not answer in full.
    #[error("{url}: cannot {action}: {cause}, at each of {attempts} attempts at {server}")]
    Unreachable {
        /// The object or bucket.
        url: String,
        /// What was to be done.
        action: &'static str,
        /// What happened at the last attempt.
        cause: String,
        /// Number of attempts.
        attempts: u32,
        /// Scheme, host and port.
        server: String,
    },
    /// The server's answer is not one to this request.
    #[error("{url}: cannot {action}: {reason}")]
    Answer {
        /// The object or bucket.
        url: String,
        /// What was to be done.
        action: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The object is not the one that was opened.
    #[error("{url}: it was replaced while it was read; run the command again")]
    Changed {
        /// The object.
        url: String,
    },
    /// An error of the other process, as a text.
    #[error("{0}")]
    Remote(String),
    /// The other process does not answer.
    #[error("the process that has the network does not answer: {0}; run the command again")]
    Lost(String),
}

fn said(code: &str, message: &str) -> String {
    let message = message.trim().trim_end_matches('.');
    match (code, message) {
        ("", "") => String::new(),
        ("", text) | (text, "") => format!(" ({text})"),
        (code, text) => format!(" ({code}: {text})"),
    }
}
