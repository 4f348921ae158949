//! Key contexts of an association (draft-ietf-tsvwg-sctp-dtls-chunk, sections 3.1, 5.2, 5.4 and 7): primary ones by
//! epoch, and those for a restart of the association.

use std::collections::VecDeque;

use crate::cipher::KeyMaterial;
use crate::record::{DEFAULT_WINDOW, OpenError, ReceiveContext, SendContext};

/// Epoch of the first key context of an association (section 3.1).
pub(crate) const FIRST_EPOCH: u64 = 3;

/// Primary receive contexts at most: those of the last two epochs, and one that is being agreed on. More could
/// not be distinguished by the two bits of the epoch.
const MAX_RECEIVE: usize = 3;

/// Restart receive contexts at most: the one in use and its successor.
const MAX_RESTART_RECEIVE: usize = 2;

/// Set of keys: of normal traffic, or of a restart (R bit).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeySet {
    /// Keys of normal traffic.
    Primary,
    /// Keys of a restart of the association alone.
    Restart,
}

/// Packets that are accepted in the clear, and contexts that are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Keys are being agreed on: packets are accepted in the clear.
    Open,
    /// Packets have to be protected (abstract API, section 7.9).
    Enforced,
    /// The association was restarted: as [`Self::Enforced`], and packets are sent with the restart context until
    /// there is a primary one (section 5.4).
    Restarted,
}

portable_enum! { Phase { 0: Open, 1: Enforced, 2: Restarted } }

/// Key contexts of an association.
#[derive(Debug)]
pub(crate) struct KeyContexts {
    phase: Phase,
    send: Option<SendContext>,
    /// The newest last.
    receive: VecDeque<ReceiveContext>,
    restart_send: Option<SendContext>,
    restart_receive: VecDeque<ReceiveContext>,
    window: u32,
    /// Bytes of chunks protected and opened by contexts that were removed.
    removed_bytes: u64,
}

portable_struct! {
    KeyContexts { phase, send, receive, restart_send, restart_receive, window, removed_bytes }
    check Self::is_consistent
}

impl Default for KeyContexts {
    fn default() -> Self {
        Self {
            phase: Phase::Open,
            send: None,
            receive: VecDeque::new(),
            restart_send: None,
            restart_receive: VecDeque::new(),
            window: DEFAULT_WINDOW,
            removed_bytes: 0,
        }
    }
}

impl KeyContexts {
    fn is_consistent(&self) -> bool {
        self.receive.len() <= MAX_RECEIVE && self.restart_receive.len() <= MAX_RESTART_RECEIVE
    }

    /// Installs a context for sending: it is in use from now on (section 7.4). Returns `false` if its key can't be
    /// used.
    pub(crate) fn install_send(&mut self, set: KeySet, epoch: u64, material: KeyMaterial) -> bool {
        let Some(context) = SendContext::new(epoch, material) else {
            return false;
        };
        let place = match set {
            KeySet::Primary => &mut self.send,
            KeySet::Restart => &mut self.restart_send,
        };
        let replaced = place.replace(context);
        self.removed_bytes += replaced.map_or(0, |context| context.bytes());
        true
    }

    /// Installs a context for receiving, beside those before it (section 7.5). Returns `false` if its key can't be
    /// used.
    pub(crate) fn install_receive(
        &mut self,
        set: KeySet,
        epoch: u64,
        material: KeyMaterial,
    ) -> bool {
        let Some(context) = ReceiveContext::new(epoch, material, self.window) else {
            return false;
        };
        let (contexts, limit) = match set {
            KeySet::Primary => (&mut self.receive, MAX_RECEIVE),
            KeySet::Restart => (&mut self.restart_receive, MAX_RESTART_RECEIVE),
        };
        // A handshake that did not complete may have left one.
        contexts.retain(|present| present.epoch() != epoch || set == KeySet::Restart);
        if contexts.len() == limit {
            let removed = contexts.pop_front();
            self.removed_bytes += removed.map_or(0, |context| context.bytes());
        }
        contexts.push_back(context);
        true
    }

    /// Removes the contexts for receiving below an epoch, and all restart contexts but the newest (section 7.7).
    pub(crate) fn remove_below(&mut self, epoch: u64) {
        let old = |context: &ReceiveContext| context.epoch() < epoch;
        let removed = self.receive.iter().filter(|context| old(context));
        self.removed_bytes += removed.map(ReceiveContext::bytes).sum::<u64>();
        self.receive.retain(|context| !old(context));
        while self.restart_receive.len() > 1 {
            self.restart_receive.pop_front();
        }
        if self.send.is_some() && self.phase == Phase::Restarted {
            self.phase = Phase::Enforced;
        }
    }

    /// Returns the newest restart contexts, if none of their keys has been used.
    pub(crate) fn unused_restart_keys(&self) -> Option<(u64, &KeyMaterial, &KeyMaterial)> {
        let (send, receive) = (self.restart_send.as_ref()?, self.restart_receive.back()?);
        let unused = send.records() == 0 && receive.records() == 0;
        unused.then(|| (send.epoch(), send.material(), receive.material()))
    }

    /// Accepts nothing in the clear from now on but INIT and INIT ACK (section 7.9).
    pub(crate) fn require_protection(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Enforced;
        }
    }

    /// Returns whether the association was restarted, so that the restart contexts are in use.
    pub(crate) fn is_restarted(&self) -> bool {
        self.phase == Phase::Restarted
    }

    pub(crate) fn requires_protection(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Removes the primary contexts: the association was restarted, and uses the restart contexts until it has
    /// new ones (section 5.4). Returns `false` without restart contexts.
    pub(crate) fn restart(&mut self) -> bool {
        if self.restart_send.is_none() || self.restart_receive.is_empty() {
            return false;
        }
        self.phase = Phase::Restarted;
        let sent = self.send.take().map_or(0, |context| context.bytes());
        let received = self
            .receive
            .drain(..)
            .map(|context| context.bytes())
            .sum::<u64>();
        self.removed_bytes += sent + received;
        true
    }

    /// Removes all contexts, and begins again in the clear: the set-up of a peer that has no keys yet was restarted.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            window: self.window,
            ..Self::default()
        };
    }

    /// Sets the size of the replay windows in records (section 7.13).
    pub(crate) fn set_window(&mut self, records: u32) {
        self.window = records;
        let receive = self.receive.iter_mut().chain(&mut self.restart_receive);
        receive.for_each(|context| context.set_window(records));
    }

    /// Returns the context that protects packets, with the R bit (section 5.2).
    fn sending(&mut self) -> Option<(&mut SendContext, u8)> {
        if let Some(send) = &mut self.send {
            return Some((send, 0));
        }
        let restart = self.restart_send.as_mut();
        let restart = restart.filter(|_| self.phase == Phase::Restarted);
        restart.map(|context| (context, R_BIT))
    }

    /// Replaces chunks by the value of a DTLS chunk; returns its flags, or the reason why it did not.
    pub(crate) fn seal(&mut self, chunks: &mut Vec<u8>) -> Result<u8, NotSealed> {
        let enforced = self.requires_protection();
        let Some((context, flags)) = self.sending() else {
            let reason = if enforced {
                NotSealed::KeysUsedUp
            } else {
                NotSealed::NoKeys
            };
            return Err(reason);
        };
        if context.seal(chunks) {
            Ok(flags)
        } else {
            Err(NotSealed::KeysUsedUp)
        }
    }

    /// Replaces the value of a DTLS chunk by the chunks in it.
    pub(crate) fn open(&mut self, flags: u8, value: &mut Vec<u8>) -> Result<(), OpenError> {
        let contexts = if flags & R_BIT == 0 {
            &mut self.receive
        } else {
            &mut self.restart_receive
        };
        let mut result = Err(OpenError::NoContext);
        // Two restart contexts may have an equal epoch.
        for context in contexts
            .iter_mut()
            .rev()
            .filter(|context| context.fits(value))
            .collect::<Vec<_>>()
        {
            match context.open(value) {
                Ok(()) => return Ok(()),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Returns whether the keys in use should be replaced because of the limits of their cipher suite.
    pub(crate) fn is_half_used(&self) -> bool {
        self.send.as_ref().is_some_and(SendContext::is_half_used)
            || self
                .receive
                .back()
                .is_some_and(ReceiveContext::is_half_exhausted)
    }

    /// Returns the bytes of chunks protected and opened in all.
    pub(crate) fn bytes(&self) -> u64 {
        let sent = self
            .send
            .iter()
            .chain(&self.restart_send)
            .map(SendContext::bytes);
        let received = self.receive.iter().chain(&self.restart_receive);
        self.removed_bytes + sent.sum::<u64>() + received.map(ReceiveContext::bytes).sum::<u64>()
    }

    /// Returns the epoch of the context that protects packets.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.send.as_ref().map(SendContext::epoch)
    }

    /// Returns the numbers of records sent, received and not authentic of an epoch (sections 7.10 to 7.12).
    pub(crate) fn records(&self, set: KeySet, epoch: u64) -> (u64, u64, u64) {
        let (send, receive) = match set {
            KeySet::Primary => (&self.send, &self.receive),
            KeySet::Restart => (&self.restart_send, &self.restart_receive),
        };
        let send = send.as_ref().filter(|context| context.epoch() == epoch);
        let receive = receive.iter().find(|context| context.epoch() == epoch);
        let (opened, failed) = receive.map_or((0, 0), |c| (c.records(), c.failed()));
        (send.map_or(0, SendContext::records), opened, failed)
    }
}

/// Flag of the DTLS chunk: a restart context protects it.
pub(crate) const R_BIT: u8 = 1;

/// Reason why a packet was not protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotSealed {
    /// There are no keys yet: it is sent in the clear.
    NoKeys,
    /// It must not be sent.
    KeysUsedUp,
}
