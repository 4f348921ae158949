//! Transfer of MTP3-User messages (RFC 4666, sections 1.4.2.4, 4.1.1 and 4.3.2).

use super::{
    AsState, AspKey, AspState, Data, ErrorCode, Message, RoutingContext, SgpIndication,
    SignallingGatewayProcess, Transmit,
};
use crate::m3ua::asp::invalid_appearance;
use crate::m3ua::association::data_stream;
use crate::m3ua::{NetworkAppearance, ProtocolData};

/// Reason for which a message can't be transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    /// No routing key matches the message.
    #[error("no routing key matches the message: configure one for its DPC, OPC and SI")]
    NoRoutingKey,
    /// No application server has the routing context.
    #[error("no application server has routing context {}", .0.0)]
    UnknownRoutingContext(RoutingContext),
    /// The application server is not active.
    #[error("the application server is {0:?}: its ASPs are not active")]
    NotActive(AsState),
    /// The application server is pending and its buffer is full.
    #[error("the buffer of the pending application server is full")]
    BufferFull,
    /// The association of an active ASP has only stream 0, which is not for DATA.
    #[error("an active ASP's association has no stream for DATA: negotiate at least two streams")]
    NoDataStream,
}

impl SignallingGatewayProcess {
    /// Routes an SS7 message by its routing key, or to the default application server: MTP-TRANSFER request. Returns
    /// the routing context.
    ///
    /// # Errors
    /// [`TransferError`]; the message is discarded.
    pub fn transfer(
        &mut self,
        appearance: Option<NetworkAppearance>,
        data: ProtocolData,
    ) -> Result<RoutingContext, TransferError> {
        let matching = self.servers_of(data.dpc).find(|server| {
            let config = &server.config;
            let (dpc, opc, si) = (data.dpc, data.opc, data.si);
            config
                .network_appearance
                .is_none_or(|network| Some(network) == appearance)
                && config
                    .destinations
                    .iter()
                    .any(|key| key.matches(dpc, opc, si))
        });
        let matching = matching.map(|server| server.config.routing_context);
        let default = || {
            let context = self.config.default_application_server?;
            let network = self.servers.get(&context)?.config.network_appearance;
            (network.is_none() || network == appearance).then_some(context)
        };
        let context = matching.or_else(default);
        let context = context.ok_or(TransferError::NoRoutingKey)?;
        self.transfer_to(context, data)?;
        Ok(context)
    }

    /// Transfers an SS7 message to an application server. In AS-PENDING it is buffered.
    ///
    /// # Errors
    /// [`TransferError`]; the message is discarded.
    pub fn transfer_to(
        &mut self,
        context: RoutingContext,
        data: ProtocolData,
    ) -> Result<(), TransferError> {
        let server = self.servers.get_mut(&context);
        let server = server.ok_or(TransferError::UnknownRoutingContext(context))?;
        match server.state {
            AsState::Active => {
                let sent = self.distribute(context, data);
                if sent {
                    Ok(())
                } else {
                    Err(TransferError::NoDataStream)
                }
            }
            AsState::Pending => {
                let octets = data.user_data.len();
                let full = server.buffer.len() >= self.config.max_buffered_messages
                    || server.buffered_octets + octets > self.config.max_buffered_octets
                    || self.buffered_octets + octets > self.config.max_buffered_octets_total;
                if full {
                    return Err(TransferError::BufferFull);
                }
                server.buffered_octets += octets;
                self.buffered_octets += octets;
                server.buffer.push_back(data);
                Ok(())
            }
            state @ (AsState::Down | AsState::Inactive) => Err(TransferError::NotActive(state)),
        }
    }

    /// Sends a message to the active ASPs of an application server, as its traffic mode demands. Returns whether any
    /// ASP could get it.
    pub(super) fn distribute(&mut self, context: RoutingContext, data: ProtocolData) -> bool {
        let Some(server) = self.servers.get_mut(&context) else {
            return false;
        };
        let sls = data.sls;
        let recipients = server.recipients(sls);
        let data = Data {
            network_appearance: server.config.network_appearance,
            routing_context: Some(context),
            protocol_data: data,
            correlation_id: recipients.correlation_id,
        };
        let mut sent = false;
        for asp in recipients.asps {
            let streams = self.asps.get(&asp).and_then(|peer| peer.outbound_streams);
            if let Some(stream) = streams.and_then(|streams| data_stream(sls, streams)) {
                let transmit = Transmit::on(stream, Message::Data(data.clone()));
                self.transmits.push_back((asp, transmit));
                sent = true;
            }
        }
        sent
    }

    /// DATA of an ASP. Before the ASP is active it is discarded (section 4.3.4.3).
    pub(super) fn on_data(&mut self, asp: AspKey, stream: u16, data: &Data, message: &Message) {
        if stream == 0 {
            self.refuse(asp, ErrorCode::INVALID_STREAM_IDENTIFIER, message);
            return;
        }
        if !self.asps.get(&asp).is_some_and(|peer| peer.up) {
            return;
        }
        let context = match self.context_of(asp, data.routing_context) {
            Ok(context) => context,
            Err(code) => return self.refuse(asp, code, message),
        };
        let Some(server) = self.servers.get(&context) else {
            return;
        };
        let found = data.network_appearance;
        if found.is_some() && found != server.config.network_appearance {
            self.answer_error(asp, invalid_appearance(found, message));
            return;
        }
        if server.asp_state(asp) == Some(AspState::Active) {
            self.indicate(SgpIndication::Transfer(asp, context, data.clone()));
        }
    }

    /// Returns the application server of a message: that of its routing context, or the only one of the ASP.
    fn context_of(
        &self,
        asp: AspKey,
        context: Option<RoutingContext>,
    ) -> Result<RoutingContext, ErrorCode> {
        match context {
            Some(context) if self.is_member(asp, context) => Ok(context),
            Some(_) => Err(ErrorCode::INVALID_ROUTING_CONTEXT),
            None => match self.contexts_of(asp)[..] {
                [] => Err(ErrorCode::NO_CONFIGURED_AS),
                [context] => Ok(context),
                _ => Err(ErrorCode::MISSING_PARAMETER),
            },
        }
    }
}
