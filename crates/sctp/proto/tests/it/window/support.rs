//! Helpers shared by the modules.

use carrick_proto::AssociationId;

use crate::common::*;

/// Two endpoints; the receiver, endpoint 1, has this receive buffer.
pub(crate) fn pair(receive_buffer: usize) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        if end == 1 {
            config.association.buffers.receive_buffer = receive_buffer;
        }
    });
    w.config.buffers.send_buffer = 1 << 24;
    let (a, b) = w.connect();
    (w, a, b)
}

pub(crate) fn errors(w: &World, id: AssociationId) -> (u32, u32) {
    (w.stats(0, id).error_count, w.path(0, id, 0).error_count)
}
