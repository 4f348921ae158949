//! Abort of an association that a program still has, for `carrick ss --kill`.

use carrick_proto::Time;
use carrick_sockets::Errno;
use serde_json::json;

use super::reply::ReplyContent;
use crate::connection::may_share;
use crate::parts::Parts;

/// Upper layer abort reason in the ABORT (RFC 9260, section 3.3.10.12).
const REASON: &[u8] = b"ended by an administrator";

/// Aborts an association. Returns its peer and the bytes that the peer has not acknowledged as a JSON object.
///
/// # Errors
/// `ENOENT`: it does not exist; `EPERM`: its socket is another user's.
pub(super) fn kill(
    parts: &mut Parts,
    now: Time,
    uid: u32,
    association: i32,
) -> Result<ReplyContent, Errno> {
    let found = parts.sockets.association_addresses(association);
    let socket = found.ok_or(Errno::ENOENT)?.socket;
    let descriptor = socket.and_then(|socket| parts.descriptors.of_socket(socket));
    let is_own = descriptor.is_some_and(|descriptor| descriptor.uid() == uid);
    if !is_own && !may_share(uid) {
        return Err(Errno::EPERM);
    }
    let aborted = parts.sockets.abort_association(now, association, REASON)?;
    parts.users.log_line(now, uid, || {
        let (port, peer) = (aborted.port, aborted.peer);
        format!(
            "user {uid} has aborted the association of port {port} with {peer} (carrick ss --kill)"
        )
    });
    let object = json!({
        "association": association,
        "port": aborted.port,
        "peer": aborted.peer,
        "unacknowledged": aborted.unacknowledged,
    });
    Ok(ReplyContent::value(object.to_string().into_bytes()))
}
