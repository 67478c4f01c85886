//! Objects of S3-compatible storage, and of Azure.
//!
//! A process that parses a dump must not have the network, and a process that has the network and
//! the credentials must not parse a dump. So this crate has two halves, which speak over a
//! socket: [`Service`] is the half with the network, in a process of its own, and [`Remote`] the
//! other one. The first half answers for those objects only that were opened before it was
//! [sealed](Remote::seal).

mod answer;
mod azure;
mod blocks;
mod call;
mod credentials;
mod dialect;
mod endpoint;
mod environment;
mod error;
mod http;
mod listing;
mod location;
mod object;
mod parts;
mod protocol;
mod refusal;
mod remote;
mod serve;
mod settings;
mod sign;
mod store;
mod upload;
mod uploader;
mod xml;

pub use dialect::Dialect;
pub use environment::Environment;
pub use error::ObjectError;
pub use listing::{Listed, Page};
pub use location::{Location, Scheme, is_object};
pub use object::{CACHE, CachedObject, Fetch};
pub use protocol::{CompletedUpload, Usage};
pub use remote::{Connect, Remote, RemoteObject, RemoteUpload};
pub use serve::Service;
pub use store::Store;
