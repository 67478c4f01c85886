//! Conversions for JSON.

use bigiron_format::VirtAddr;
use serde::Serializer;

/// Serialises an address as `0xffff888003a51980`.
pub(crate) fn hexadecimal<S: Serializer>(address: &VirtAddr, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(address)
}

/// Serializes an address, if there is one, in hexadecimal.
pub fn hexadecimal_if_any<S: Serializer>(
    address: &Option<VirtAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => hexadecimal(address, serializer),
        None => serializer.serialize_none(),
    }
}
