//! Misbehaviour of peers and of other hosts (RFC 8261; RFC 6347, section 4.2.1).
//!
//! - `identity`: peers with a wrong identity
//! - `limits`: too many, too long, too large
//! - `records`: datagrams that are no records of the session, and SCTP without DTLS

mod identity;
mod limits;
mod records;

use crate::common::World;
use carrick_dtls::{DtlsError, Versions};
use carrick_proto::sessions::SessionEvent;

const VERSIONS: [Versions; 2] = [Versions::Dtls12, Versions::Dtls13];

fn failure(world: &World, node: usize) -> Option<&DtlsError> {
    world.nodes[node].sessions.iter().find_map(|e| match e {
        SessionEvent::Failed(_, error, _) => Some(error),
        _ => None,
    })
}
