//! Helpers shared by the modules.

use carrick_proto::SendOptions;

/// Payload of a full DATA chunk: 1500 less IP, common and DATA header.
pub(crate) const FULL: usize = 1452;

pub(crate) fn options(stream: u16) -> SendOptions {
    SendOptions::on_stream(stream)
}

pub(crate) fn unordered() -> SendOptions {
    SendOptions {
        unordered: true,
        ..SendOptions::default()
    }
}
