//! Traffic of the user, to and from ASPs (RFC 4666, sections 4.1.1, 4.3.2 and 4.3.4.3).

use std::collections::VecDeque;
use std::fmt::{Debug, Display};

use super::{AsState, AspKey, Gateway, GatewayEvent, Layer, Transmit};
use crate::message::ErrorCode;

/// Reason for which a message can't be delivered to an application server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeliveryError<I: Debug + Display> {
    /// No application server has the identifier.
    #[error("no application server has {0}")]
    Unknown(I),
    /// The application server is not active.
    #[error("the application server is {0:?}: its ASPs are not active")]
    NotActive(AsState),
    /// The application server is pending and its buffer is full.
    #[error("the buffer of the pending application server is full")]
    BufferFull,
    /// No active ASP has the label of the message, in load sharing by labels.
    #[error("no active ASP has the label in the message's transaction or reference number")]
    NoLabel,
    /// The association of an active ASP has only stream 0, which is not for traffic.
    #[error("an active ASP's association has no stream for traffic: negotiate at least two")]
    NoDataStream,
}

impl<L: Layer> Gateway<L> {
    /// Delivers a message to an application server. In AS-PENDING it is buffered.
    ///
    /// # Errors
    /// [`DeliveryError`]; the message is discarded.
    pub fn deliver(
        &mut self,
        id: &L::AsId,
        payload: L::Payload,
    ) -> Result<(), DeliveryError<L::AsId>> {
        self.deliver_from(None, id, payload)
    }

    /// Delivers a message of an ASP, as [`deliver`](Self::deliver) does one of the user.
    pub(crate) fn deliver_from(
        &mut self,
        sender: Option<AspKey>,
        id: &L::AsId,
        payload: L::Payload,
    ) -> Result<(), DeliveryError<L::AsId>> {
        let server = self.servers.get_mut(id);
        let server = server.ok_or_else(|| DeliveryError::Unknown(id.clone()))?;
        match server.state {
            AsState::Active => self.distribute(id, payload),
            AsState::Pending => {
                let octets = L::octets(&payload);
                let full = server.buffer.len() >= self.config.max_buffered_messages
                    || server.buffered_octets + octets > self.config.max_buffered_octets
                    || self.buffered_octets + octets > self.config.max_buffered_octets_total;
                if full {
                    return Err(DeliveryError::BufferFull);
                }
                server.buffered_octets += octets;
                self.buffered_octets += octets;
                server.buffer.push_back((sender, payload));
                Ok(())
            }
            state @ (AsState::Down | AsState::Inactive) => Err(DeliveryError::NotActive(state)),
        }
    }

    /// Sends a message to the active ASPs of an application server, as its traffic mode demands.
    fn distribute(
        &mut self,
        id: &L::AsId,
        payload: L::Payload,
    ) -> Result<(), DeliveryError<L::AsId>> {
        let server = self.servers.get_mut(id);
        let server = server.ok_or_else(|| DeliveryError::Unknown(id.clone()))?;
        let recipients = server.recipients(&payload);
        if recipients.asps.is_empty() {
            return Err(DeliveryError::NoLabel);
        }
        let streams = recipients.asps.into_iter().filter_map(|asp| {
            let streams = self.asps.get(&asp)?.outbound_streams?;
            Some((asp, L::stream(&payload, streams)?))
        });
        let streams: Vec<_> = streams.collect();
        let message = L::deliver(&server.config, payload, recipients.correlation_id);
        for (asp, stream) in &streams {
            let transmit = Transmit::on(*stream, message.clone());
            self.transmits.push_back((*asp, transmit));
        }
        let sent = !streams.is_empty();
        sent.then_some(()).ok_or(DeliveryError::NoDataStream)
    }

    /// Sends the buffered messages, or discards them after T(r).
    pub(super) fn leave_pending(&mut self, id: &L::AsId, next: AsState) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        self.buffered_octets -= server.buffered_octets;
        let buffer = server.take_buffer();
        if next == AsState::Active {
            for (sender, payload) in buffer {
                if let Err(error) = self.distribute(id, payload.clone()) {
                    L::discarded(self, sender, payload, error);
                }
            }
        } else {
            self.discard(id, buffer, &DeliveryError::NotActive(next));
        }
    }

    /// Discards the messages that waited for an application server.
    pub(super) fn discard(
        &mut self,
        id: &L::AsId,
        buffer: VecDeque<(Option<AspKey>, L::Payload)>,
        error: &DeliveryError<L::AsId>,
    ) {
        if buffer.is_empty() {
            return;
        }
        self.indicate(GatewayEvent::Discarded(id.clone(), buffer.len()));
        for (sender, payload) in buffer {
            L::discarded(self, sender, payload, error.clone());
        }
    }

    /// Returns the application server of a message of an ASP, `None` if the message was answered with an Error message,
    /// or discarded because the ASP is in ASP-DOWN. With `id` absent, it is the only one of the ASP. Whether the
    /// ASP is active there is the caller's to check.
    pub(crate) fn addressed(
        &mut self,
        asp: AspKey,
        stream: u16,
        id: Option<L::AsId>,
        message: &L::Message,
    ) -> Option<L::AsId> {
        if stream == 0 {
            self.refuse(asp, ErrorCode::INVALID_STREAM_IDENTIFIER, message);
            return None;
        }
        let peer = self.asps.get(&asp).filter(|peer| peer.up)?;
        let found = match id {
            Some(id) if peer.servers.contains(&id) => Ok(id),
            Some(_) => Err(L::INVALID_AS),
            None => match peer.servers.first() {
                None => Err(L::NO_AS),
                Some(id) if peer.servers.len() == 1 => Ok(id.clone()),
                Some(_) => Err(ErrorCode::MISSING_PARAMETER),
            },
        };
        match found {
            Ok(id) => Some(id),
            Err(code) => {
                self.refuse(asp, code, message);
                None
            }
        }
    }
}
