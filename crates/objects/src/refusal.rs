//! Refusals of servers, and what to do about them.

use crate::answer::Answer;
use crate::call::Call;
use crate::error::ObjectError;
use crate::xml::Element;

/// Maximum length of a server's message that is kept.
const MAX_MESSAGE: usize = 200;

/// A server's refusal.
pub struct Refusal {
    status: u16,
    code: String,
    message: String,
    region: Option<String>,
}

impl Refusal {
    /// The refusal in an answer.
    pub fn of(answer: &Answer) -> Self {
        let error = Element::parse(&answer.body);
        let error = error.filter(|root| root.name() == "Error");
        // The texts of a server may go to a terminal. Further lines are about the request.
        let plain = |text: &str| {
            let line = text.lines().next().unwrap_or_default();
            let plain = line.chars().filter(|char| !char.is_control());
            plain.take(MAX_MESSAGE).collect::<String>()
        };
        let text = |name: &str| plain(error.as_ref().map_or("", |error| error.text(name)));
        Self {
            status: answer.status,
            code: match text("Code") {
                // An answer to HEAD has no body; Azure's have the code in a header.
                code if code.is_empty() => {
                    plain(answer.header("x-ms-error-code").unwrap_or_default())
                }
                code => code,
            },
            message: text("Message"),
            region: answer.header("x-amz-bucket-region").map(ToOwned::to_owned),
        }
    }

    /// Errors of the server, and those by which it asks for fewer requests.
    pub fn is_temporary(&self) -> bool {
        let by_code = ["RequestTimeout", "SlowDown", "OperationAborted"];
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504)
            || by_code.contains(&self.code.as_str())
    }

    /// Errors that other keys may mend.
    pub fn is_about_keys(&self) -> bool {
        let codes = [
            "ExpiredToken",
            "TokenRefreshRequired",
            "InvalidToken",
            "InvalidAuthenticationInfo",
        ];
        codes.contains(&self.code.as_str())
    }

    fn hint(&self) -> &'static str {
        match (self.code.as_str(), self.status) {
            ("NoSuchKey" | "BlobNotFound", _) => {
                "there is no such object; `bigiron triage` takes a prefix"
            }
            ("NoSuchBucket", _) => "there is no such bucket; check its name and AWS_ENDPOINT_URL",
            ("ContainerNotFound", _) => {
                "there is no such container; check its name and AZURE_STORAGE_ACCOUNT"
            }
            ("NoSuchUpload", _) => "the upload is not there any more",
            ("ExpiredToken" | "TokenRefreshRequired", _) => {
                "the credentials have expired; get new ones, and set AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or write the profile"
            }
            ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken", _) => {
                "the credentials are wrong; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
                 AWS_SESSION_TOKEN, or the profile"
            }
            (
                "AuthenticationFailed"
                | "InvalidAuthenticationInfo"
                | "NoAuthenticationInformation",
                _,
            ) => {
                "the credentials are wrong or have expired, or this machine's clock is; check \
                 AZURE_STORAGE_ACCOUNT, and AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or \
                 AZURE_STORAGE_CONNECTION_STRING"
            }
            ("RequestTimeTooSkewed", _) => "set the clock of this machine",
            (
                "PermanentRedirect"
                | "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException",
                _,
            )
            | (_, 301 | 307) => "the bucket is in another region; set AWS_REGION to it",
            (_, 404) => "there is no such object or bucket, or this user may not see it",
            (_, 401 | 403) => "this user may not do that; change the bucket's policy or the keys",
            (_, 409) => "the object is being changed; run the command again",
            _ => "see the server's documentation for this status",
        }
    }

    /// The error of a request that was refused.
    pub fn error(self, call: &Call<'_>) -> ObjectError {
        let hint = self.hint();
        let message = match self.region {
            Some(region) if self.message.is_empty() => format!("the bucket is in {region}"),
            Some(region) => format!("{}; the bucket is in {region}", self.message),
            None => self.message,
        };
        ObjectError::Refused {
            url: call.location.to_string(),
            action: call.action,
            status: self.status,
            code: self.code,
            message,
            hint,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {} {}", self.status, self.code)?;
        match self.message.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.message),
        }
    }
}
