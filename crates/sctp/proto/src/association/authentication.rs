//! Authentication (RFC 4895): applies the results of [`auth`](crate::auth) to notifications, replies and the
//! space for DATA.

use alloc::vec::Vec;

use carrick_wire::{Auth as AuthChunk, AuthSlot, CauseCode, Packet, PacketBuilder, SharedKeyId};

use super::Association;
use super::assemble::DATA;
use crate::auth::{Auth, AuthOutcome, KeyError, KeyVector};
use crate::event::{AuthenticationEvent, Event};
use crate::route::Route;

impl Association {
    /// Sets the key vectors of both sides, from a cookie, or from our INIT and the INIT ACK. The peer's
    /// is empty if it lacks authentication.
    pub(super) fn agree_on_keys(&mut self, ours: Option<&KeyVector>, theirs: KeyVector) {
        if self.extensions.authentication {
            let config = &self.config.security.authentication;
            self.auth.negotiate(config, ours, theirs);
        } else {
            self.auth.disable();
        }
        self.paths.reserve(self.auth.len_for(&DATA));
    }

    /// Notifies the user if the peer lacks the authentication that this side offered.
    pub(super) fn notify_unauthenticated(&mut self) {
        if self.config.offered().authentication && !self.auth.is_enabled() {
            let event = AuthenticationEvent::NotSupported;
            self.events.push(Event::Authentication(event));
        }
    }

    /// Completes a packet and returns its length; 0 for a packet without a chunk behind AUTH, which is
    /// discarded.
    pub(super) fn finish(&mut self, packet: PacketBuilder<'_>, slot: Option<AuthSlot>) -> usize {
        let control_chunks = packet.control_chunks();
        let len = self.auth.finish(packet, slot, self.omits_checksum());
        if len > 0 {
            self.counters.control_chunks_sent += u64::from(control_chunks);
        }
        len
    }

    /// Verifies an AUTH chunk. Returns whether the chunks behind it are authentic; otherwise they are
    /// discarded (section 6.3).
    pub(super) fn on_auth(
        &mut self,
        chunk: &AuthChunk<'_>,
        packet: &Packet<'_>,
        route: &Route,
    ) -> bool {
        match self.auth.on_auth(chunk, packet) {
            AuthOutcome::Authentic => true,
            AuthOutcome::PeerKeyChanged(key) => {
                self.events
                    .notify_key(AuthenticationEvent::PeerKeyChanged(key));
                true
            }
            AuthOutcome::Rejected => false,
            AuthOutcome::UnknownKey(key) => {
                self.events.notify_key(AuthenticationEvent::UnknownKey(key));
                false
            }
            AuthOutcome::UnsupportedAlgorithm(id) => {
                let mut cause = Vec::with_capacity(8);
                cause.extend_from_slice(&CauseCode::UNSUPPORTED_HMAC_ID.0.to_be_bytes());
                cause.extend_from_slice(&[0, 6]);
                cause.extend_from_slice(&id.0.to_be_bytes());
                self.reply_error(route, cause);
                false
            }
        }
    }

    pub(crate) fn auth_mut(&mut self) -> &mut Auth {
        &mut self.auth
    }

    /// Stops sending with a key. Packets are assembled when they are sent, so nothing that waits needs
    /// it.
    pub(crate) fn deactivate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.auth.deactivate_key(id)?;
        let event = AuthenticationEvent::KeyFree(id);
        self.events.push(Event::Authentication(event));
        Ok(())
    }
}
