//! Authentication of packets (RFC 4895): AUTH chunks that are sent and received, and the operations on
//! keys.

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{
    Auth as AuthChunk, AuthSlot, COMMON_HEADER_LEN, CauseCode, ChunkType, Packet, PacketBuilder,
    SharedKeyId,
};

use super::{Association, Context};
use crate::auth::{Auth, KeyError, KeyVector, SharedKey, Verdict};
use crate::event::{AuthenticationEvent, Event};
use crate::route::Route;

impl Association {
    /// Creates the random number that the INIT contains.
    pub(super) fn offer_authentication(&mut self, cx: &mut Context<'_>) {
        let offered = self.config.offered();
        if offered.authentication {
            let config = &self.config.security.authentication;
            let ours = KeyVector::new(&cx.random.key(), config, offered.dynamic_addresses);
            self.auth = Some(Box::new(Auth::new(config, ours)));
        }
    }

    /// Sets the key vectors of both sides, from a cookie, or from our INIT and the INIT ACK. The peer's
    /// is empty if it lacks authentication.
    pub(super) fn agree_on_keys(&mut self, ours: Option<&KeyVector>, theirs: KeyVector) {
        self.paths.reserve(0);
        if !self.extensions.authentication {
            self.auth = None;
            return;
        }
        if self.auth.is_none() {
            let ours = ours.cloned().unwrap_or_default();
            self.auth = Some(Box::new(Auth::new(
                &self.config.security.authentication,
                ours,
            )));
        }
        let Some(auth) = &mut self.auth else { return };
        let ours = ours.unwrap_or(auth.ours()).clone();
        auth.negotiated(ours, theirs);
        if auth.wants(ChunkType::DATA) || auth.wants(ChunkType::I_DATA) {
            self.paths.reserve(auth.chunk_len());
        }
    }

    /// Notifies the user if the peer lacks the authentication that this side offered.
    pub(super) fn notify_unauthenticated(&mut self) {
        if self.config.offered().authentication && self.auth.is_none() {
            let event = AuthenticationEvent::NotSupported;
            self.events.push(Event::Authentication(event));
        }
    }

    /// Returns whether a chunk of this type requires AUTH in front of it, and counts it as
    /// unauthenticated.
    pub(crate) fn lacks_authentication(&mut self, kind: ChunkType) -> bool {
        let auth = self.auth.as_mut().filter(|auth| auth.requires(kind));
        auth.is_some_and(|auth| {
            auth.counters.unauthenticated_chunks += 1;
            true
        })
    }

    /// Counts an AUTH chunk that can't be parsed.
    pub(super) fn on_malformed_auth(&mut self) {
        if let Some(auth) = &mut self.auth {
            auth.counters.forged_packets += 1;
        }
    }

    /// Reserves an AUTH chunk if the peer requires it for one of these chunk types.
    pub(super) fn open_auth(
        &self,
        packet: &mut PacketBuilder<'_>,
        kinds: &[ChunkType],
    ) -> Option<AuthSlot> {
        let auth = self.auth.as_ref()?;
        let wanted = kinds.iter().any(|kind| auth.wants(*kind));
        wanted.then(|| auth.open(packet))
    }

    /// Returns the bytes that [`Self::open_auth`] reserves.
    pub(super) fn auth_len(&self, kinds: &[ChunkType]) -> usize {
        let auth = self.auth.as_ref();
        auth.filter(|auth| kinds.iter().any(|kind| auth.wants(*kind)))
            .map_or(0, |auth| auth.chunk_len())
    }

    /// Completes a packet and returns its length; 0 for a packet without a chunk behind AUTH, which is
    /// discarded.
    pub(super) fn finish(&self, packet: PacketBuilder<'_>, slot: Option<AuthSlot>) -> usize {
        self.finish_with(packet, slot, self.omits_checksum())
    }

    /// Completes a packet like [`Self::finish`], but always with a checksum.
    pub(super) fn finish_checked(
        &self,
        packet: PacketBuilder<'_>,
        slot: Option<AuthSlot>,
    ) -> usize {
        self.finish_with(packet, slot, false)
    }

    fn finish_with(
        &self,
        packet: PacketBuilder<'_>,
        slot: Option<AuthSlot>,
        without_checksum: bool,
    ) -> usize {
        let (Some(auth), Some(slot)) = (&self.auth, slot) else {
            return if without_checksum {
                packet.finish_with_zero_checksum()
            } else {
                packet.finish()
            };
        };
        if packet.len() <= COMMON_HEADER_LEN + auth.chunk_len() {
            packet.discard();
            return 0;
        }
        auth.sign(packet, slot, without_checksum)
    }

    /// Verifies an AUTH chunk. Returns whether the chunks behind it are authentic; otherwise they are
    /// discarded (section 6.3).
    pub(super) fn on_auth(
        &mut self,
        chunk: &AuthChunk<'_>,
        packet: &Packet<'_>,
        route: &Route,
    ) -> bool {
        let Some(auth) = self.auth.as_mut() else {
            return false;
        };
        if !auth.is_negotiated() {
            auth.counters.unknown_keys += 1;
            return false;
        }
        match auth.verify(chunk, packet) {
            Verdict::Genuine => {
                let key = chunk.shared_key;
                auth.reported_unknown_key = None;
                let before = auth.peer_key.replace(key);
                if before.is_some_and(|k| k != key) {
                    self.notify_key(AuthenticationEvent::PeerKeyChanged(key));
                }
                true
            }
            Verdict::Forged => {
                auth.counters.forged_packets += 1;
                false
            }
            Verdict::UnknownKey(key) => {
                auth.counters.unknown_keys += 1;
                if auth.reported_unknown_key.replace(key) != Some(key) {
                    self.notify_key(AuthenticationEvent::UnknownKey(key));
                }
                false
            }
            Verdict::UnsupportedAlgorithm(id) => {
                auth.counters.unknown_keys += 1;
                let mut cause = Vec::with_capacity(8);
                cause.extend_from_slice(&CauseCode::UNSUPPORTED_HMAC_ID.0.to_be_bytes());
                cause.extend_from_slice(&[0, 6]);
                cause.extend_from_slice(&id.0.to_be_bytes());
                self.reply_error(route, cause);
                false
            }
        }
    }

    fn notify_key(&mut self, event: AuthenticationEvent) {
        self.events.push_limited(Event::Authentication(event));
    }

    fn keys(&mut self) -> Result<&mut Auth, KeyError> {
        if self.state.is_closed() {
            return Err(KeyError::UnknownAssociation);
        }
        self.auth.as_deref_mut().ok_or(KeyError::NotInForce)
    }

    pub(crate) fn add_key(&mut self, key: SharedKey) -> Result<(), KeyError> {
        self.keys()?.add_key(key)
    }

    pub(crate) fn activate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys()?.activate_key(id)
    }

    /// Packets are assembled when they are sent, so nothing that waits needs the key.
    pub(crate) fn deactivate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys()?.deactivate_key(id)?;
        let event = AuthenticationEvent::KeyFree(id);
        self.events.push(Event::Authentication(event));
        Ok(())
    }

    pub(crate) fn delete_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys()?.delete_key(id)
    }
}
