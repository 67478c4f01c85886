//! Credentials: from the environment, a profile, or a service of the container or the machine.

mod ask;
mod container;
mod keys;
mod machine;
mod managed_identity;
mod profile;
mod provider;
mod web_identity;

pub use keys::{Keys, Secret};
pub use machine::Machine;
pub use managed_identity::{ManagedIdentity, Token};
pub use profile::Profile;
pub use provider::Provider;
