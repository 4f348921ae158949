//! Transfer of MTP3-User messages (RFC 4666, sections 1.4.2.4, 4.1.1 and 4.3.2).

use super::{
    AsState, AspKey, Data, Message, RoutingContext, SgpIndication, SignallingGatewayProcess,
};
use crate::aspm::AspState;
use crate::aspm::sgp::DeliveryError;
use crate::m3ua::asp::invalid_appearance;
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

impl From<DeliveryError<RoutingContext>> for TransferError {
    fn from(error: DeliveryError<RoutingContext>) -> Self {
        match error {
            DeliveryError::Unknown(context) => Self::UnknownRoutingContext(context),
            DeliveryError::NotActive(state) => Self::NotActive(state),
            DeliveryError::BufferFull => Self::BufferFull,
            // M3UA has no labels.
            DeliveryError::NoDataStream | DeliveryError::NoLabel => Self::NoDataStream,
        }
    }
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
        let keys = &self.user.keys;
        let matching = keys.find(appearance, data.dpc, data.opc, data.si);
        let default = || {
            let context = self.config.default_application_server?;
            let network = self.server(&context)?.network_appearance;
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
        Ok(self.deliver(&context, data)?)
    }

    /// DATA of an ASP. Before the ASP is active it is discarded (section 4.3.4.3).
    pub(super) fn on_data(&mut self, asp: AspKey, stream: u16, data: &Data, message: &Message) {
        let Some(context) = self.addressed(asp, stream, data.routing_context, message) else {
            return;
        };
        let found = data.network_appearance;
        let server = self.server(&context);
        if found.is_some() && found != server.and_then(|server| server.network_appearance) {
            self.answer_error(asp, invalid_appearance(found, message));
            return;
        }
        if self.asp_state(asp, context) == Some(AspState::Active) {
            self.indicate(SgpIndication::Transfer(asp, context, data.clone()));
        }
    }
}
