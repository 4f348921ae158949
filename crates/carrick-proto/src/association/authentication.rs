//! Authentication in the course of an association (RFC 4895): the AUTH chunk of each packet, the
//! verdict on those that come, and the operations on keys.

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{
    Auth as AuthChunk, AuthSlot, COMMON_HEADER_LEN, CauseCode, ChunkType, Packet, PacketBuilder,
    SharedKeyId,
};

use super::{Association, Context, MAX_PEER_EVENTS};
use crate::auth::{Auth, KeyError, KeyVector, SharedKey, Verdict};
use crate::event::{AuthenticationEvent, Event};
use crate::route::Route;

impl Association {
    /// Before our INIT: the random number that goes with it.
    pub(super) fn offer_authentication(&mut self, cx: &mut Context<'_>) {
        let offered = self.config.offered();
        if offered.authentication {
            let config = &self.config.authentication;
            let ours = KeyVector::new(&cx.random.key(), config, offered.dynamic_addresses);
            self.auth = Some(Box::new(Auth::new(config, ours)));
        }
    }

    /// What both sides said is known: from a cookie, or our own and an INIT ACK. The peer's is
    /// empty if it lacks authentication.
    pub(super) fn agree_on_keys(&mut self, ours: Option<&KeyVector>, theirs: KeyVector) {
        self.paths.reserve(0);
        if !self.extensions.authentication {
            self.auth = None;
            return;
        }
        if self.auth.is_none() {
            let ours = ours.cloned().unwrap_or_default();
            self.auth = Some(Box::new(Auth::new(&self.config.authentication, ours)));
        }
        let Some(auth) = &mut self.auth else { return };
        let ours = ours.unwrap_or(auth.ours()).clone();
        auth.negotiated(ours, theirs);
        if auth.wants(ChunkType::DATA) || auth.wants(ChunkType::I_DATA) {
            self.paths.reserve(auth.chunk_len());
        }
    }

    pub(super) fn tell_authentication(&mut self) {
        if self.config.offered().authentication && self.auth.is_none() {
            let event = AuthenticationEvent::NotSupported;
            self.events.push_back(Event::Authentication(event));
        }
    }

    /// Whether a chunk of this type that came without AUTH is to be dropped; it is counted.
    pub(crate) fn lacks_authentication(&mut self, kind: ChunkType) -> bool {
        let auth = self.auth.as_mut().filter(|auth| auth.requires(kind));
        auth.is_some_and(|auth| {
            auth.counters.unauthenticated_chunks += 1;
            true
        })
    }

    /// An AUTH chunk that can't be parsed.
    pub(super) fn on_malformed_auth(&mut self) {
        if let Some(auth) = &mut self.auth {
            auth.counters.forged_packets += 1;
        }
    }

    /// Puts an AUTH chunk into the packet if the peer wants it before one of these.
    pub(super) fn open_auth(
        &self,
        packet: &mut PacketBuilder<'_>,
        kinds: &[ChunkType],
    ) -> Option<AuthSlot> {
        let auth = self.auth.as_ref()?;
        let wanted = kinds.iter().any(|kind| auth.wants(*kind));
        wanted.then(|| auth.open(packet))
    }

    /// Bytes that [`Self::open_auth`] takes.
    pub(super) fn auth_len(&self, kinds: &[ChunkType]) -> usize {
        let auth = self.auth.as_ref();
        auth.filter(|auth| kinds.iter().any(|kind| auth.wants(*kind)))
            .map_or(0, |auth| auth.chunk_len())
    }

    /// Completes a packet; one in which nothing follows its AUTH chunk is none, and its length 0.
    pub(super) fn finish(&self, packet: PacketBuilder<'_>, slot: Option<AuthSlot>) -> usize {
        self.finish_with(packet, slot, self.omits_checksum())
    }

    /// The same with a checksum in any case.
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

    /// An AUTH chunk came. Returns whether the chunks behind it are the peer's; if not, they are
    /// all dropped (section 6.3).
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
        match auth.judge(chunk, packet) {
            Verdict::Genuine => {
                let key = chunk.shared_key;
                auth.told_unknown = None;
                let before = auth.peer_key.replace(key);
                if before.is_some_and(|k| k != key) {
                    self.tell_key(AuthenticationEvent::PeerKeyChanged(key));
                }
                true
            }
            Verdict::Forged => {
                auth.counters.forged_packets += 1;
                false
            }
            Verdict::UnknownKey(key) => {
                auth.counters.unknown_keys += 1;
                if auth.told_unknown.replace(key) != Some(key) {
                    self.tell_key(AuthenticationEvent::UnknownKey(key));
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

    fn tell_key(&mut self, event: AuthenticationEvent) {
        if self.events.len() < MAX_PEER_EVENTS {
            self.events.push_back(Event::Authentication(event));
        }
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

    /// Packets are made when they leave, so that nothing waits which needs the key.
    pub(crate) fn deactivate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys()?.deactivate_key(id)?;
        let event = AuthenticationEvent::KeyFree(id);
        self.events.push_back(Event::Authentication(event));
        Ok(())
    }

    pub(crate) fn delete_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys()?.delete_key(id)
    }
}
