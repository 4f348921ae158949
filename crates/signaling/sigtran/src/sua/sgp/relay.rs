//! Relay function of an SGP (RFC 3868, sections 1.4.6 and 1.5.3).

use super::{
    AsState, AspKey, DeliveryError, NetworkAppearance, SgpIndication, SignallingGatewayProcess,
};
use crate::aspm::AspState;
use crate::sua::connectionless::{self, return_message};
use crate::sua::translation::{TranslationError, TranslationTable};
use crate::sua::{
    ConnectionRequest, DestinationAddress, HopCounter, Message, RefusalCause, ReturnCause, Route,
    RoutingContext,
};

/// Way on which a relayed message continues.
#[derive(Clone, PartialEq, Debug)]
pub enum Relayed {
    /// It was delivered to an application server.
    ApplicationServer(RoutingContext),
    /// The destination is no application server: this message is for the SS7 network, or for another gateway.
    Network(Box<Message>),
}

/// Reason for which a message is not relayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The message is no CLDT, CLDR or CORE.
    #[error("the message has no destination address: relay CLDT, CLDR and CORE only")]
    NoDestination,
    /// The hop counter reached zero.
    #[error("the hop counter reached zero: the message is in a loop")]
    HopCounter,
    /// The global title is not translated.
    #[error(transparent)]
    Translation(#[from] TranslationError),
    /// The destination is neither an application server, nor does it have a point code.
    #[error("no routing key matches the destination, which has no point code: add a key")]
    NoRoutingKey,
    /// The application server does not take the message.
    #[error(transparent)]
    Delivery(#[from] DeliveryError<RoutingContext>),
    /// The associations with the ASPs have no room.
    #[error("the queue to the active ASPs is full: they do not read")]
    Congestion,
}

/// Message that is not relayed.
#[derive(Clone, PartialEq, Debug)]
pub struct NotRelayed {
    /// Reason.
    pub error: RelayError,
    /// CLDR or COREF for the sender: of a CLDT with the return option, and of a CORE.
    /// [`reply`](SignallingGatewayProcess::reply) sends it to the ASP.
    pub answer: Option<Box<Message>>,
}

impl RelayError {
    /// Returns the cause of a CLDR and the one of a COREF.
    const fn causes(self) -> (ReturnCause, RefusalCause) {
        match self {
            Self::HopCounter => (
                ReturnCause::HOP_COUNTER_VIOLATION,
                RefusalCause::HOP_COUNTER_VIOLATION,
            ),
            Self::Translation(TranslationError::Nature) => (
                ReturnCause::NO_TRANSLATION_FOR_NATURE,
                RefusalCause::NO_TRANSLATION_FOR_NATURE,
            ),
            Self::Translation(TranslationError::NoSubsystem) => {
                (ReturnCause::UNEQUIPPED_USER, RefusalCause::UNEQUIPPED_USER)
            }
            Self::Translation(TranslationError::Address | TranslationError::TooLong)
            | Self::NoRoutingKey
            | Self::NoDestination => (
                ReturnCause::NO_TRANSLATION,
                RefusalCause::DESTINATION_UNKNOWN,
            ),
            Self::Delivery(DeliveryError::NotActive(_) | DeliveryError::NoLabel) => (
                ReturnCause::SUBSYSTEM_FAILURE,
                RefusalCause::SUBSYSTEM_FAILURE,
            ),
            Self::Delivery(DeliveryError::BufferFull) => (
                ReturnCause::SUBSYSTEM_CONGESTION,
                RefusalCause::SUBSYSTEM_CONGESTION,
            ),
            Self::Congestion => (
                ReturnCause::NETWORK_CONGESTION,
                RefusalCause::QOS_UNAVAILABLE_TRANSIENT,
            ),
            Self::Delivery(DeliveryError::Unknown(_) | DeliveryError::NoDataStream) => {
                (ReturnCause::SCCP_FAILURE, RefusalCause::SCCP_FAILURE)
            }
        }
    }
}

impl NotRelayed {
    /// Failure of a message, with its answer.
    pub fn new(error: RelayError, message: &Message) -> Self {
        let (return_cause, refusal_cause) = error.causes();
        let answer = match message {
            Message::ConnectionlessDataTransfer(body) => {
                let answer = return_message(body, return_cause);
                answer.map(Message::ConnectionlessDataResponse)
            }
            Message::ConnectionRequest(body) => {
                let answer = connectionless::refuse(body, refusal_cause);
                Some(Message::ConnectionRefused(answer))
            }
            // A message that is returned already is not returned again.
            _ => None,
        };
        Self {
            error,
            answer: answer.map(Box::new),
        }
    }
}

/// Returns the destination address and the hop counter of a message that can be relayed.
fn routing_part(
    message: &mut Message,
) -> Option<(&mut DestinationAddress, &mut Option<HopCounter>)> {
    Some(match message {
        Message::ConnectionlessDataTransfer(body) => (&mut body.destination, &mut body.hop_counter),
        Message::ConnectionlessDataResponse(body) => (&mut body.destination, &mut body.hop_counter),
        Message::ConnectionRequest(body) => (&mut body.destination, &mut body.hop_counter),
        _ => return None,
    })
}

impl SignallingGatewayProcess {
    /// Relays a CLDT, CLDR or CORE to its destination:
    ///
    /// 1. The hop counter is decremented (section 1.5.3).
    /// 2. If a routing key matches the destination address, the message is for its application server.
    /// 3. Otherwise a global title is translated, once. Without a hop counter the message gets the greatest one, so that
    ///    relays that translate to each other do not loop.
    /// 4. The message is delivered to the application server of the rule, to that of the new address, or to the default
    ///    one (section 1.5.1). Otherwise a message with a point code is for the network.
    ///
    /// `sender` is the ASP that sent the message, if it is not of the SS7 network. If the application server is pending and
    /// the message is discarded later, the answer is sent to that ASP, or is [`SgpIndication::Returned`].
    ///
    /// # Errors
    /// [`NotRelayed`] with the answer for the sender.
    pub fn relay(
        &mut self,
        sender: Option<AspKey>,
        translations: &TranslationTable,
        network: Option<NetworkAppearance>,
        message: &Message,
    ) -> Result<Relayed, NotRelayed> {
        let mut relayed = message.clone();
        let routing_part = routing_part(&mut relayed).ok_or(RelayError::NoDestination);
        let context = routing_part.and_then(|(destination, hop_counter)| {
            self.translate(translations, network, destination, hop_counter)
        });
        // 4. Delivery.
        let delivered = context.and_then(|context| {
            let Some(context) = context else {
                return Ok(Relayed::Network(Box::new(relayed)));
            };
            self.deliver_from(sender, &context, relayed)?;
            Ok(Relayed::ApplicationServer(context))
        });
        delivered.map_err(|error| NotRelayed::new(error, message))
    }

    /// Changes a CORE into the one with which
    /// [`ConnectionTable::relay`](crate::sua::connection::ConnectionTable::relay) relays it, by the first three steps of
    /// [`relay`](Self::relay). Returns whether its routing context is that of an application server; otherwise it is for the
    /// SS7 network.
    ///
    /// # Errors
    /// [`NotRelayed`] with the COREF for the sender, also if no ASP of the application server is active.
    pub fn relay_request(
        &self,
        translations: &TranslationTable,
        network: Option<NetworkAppearance>,
        request: &mut ConnectionRequest,
    ) -> Result<bool, NotRelayed> {
        let (destination, hop_counter) = (&mut request.destination, &mut request.hop_counter);
        let context = self.translate(translations, network, destination, hop_counter);
        let checked = context.and_then(|context| {
            let state = context.map(|context| (context, self.as_state(context)));
            match state {
                None => Ok(None),
                Some((context, Some(AsState::Active | AsState::Pending))) => Ok(Some(context)),
                Some((_, Some(state))) => Err(DeliveryError::NotActive(state).into()),
                Some((context, None)) => Err(DeliveryError::Unknown(context).into()),
            }
        });
        match checked {
            Ok(context) => {
                request.routing_context = context.unwrap_or(request.routing_context);
                Ok(context.is_some())
            }
            Err(error) => {
                let message = Message::ConnectionRequest(request.clone());
                Err(NotRelayed::new(error, &message))
            }
        }
    }

    /// Answers a message that was discarded after it had waited: a CLDR or COREF for its sender (section 1.5.1), unless that
    /// is an ASP that is not active any more.
    pub(in crate::sua) fn on_discarded(
        &mut self,
        sender: Option<AspKey>,
        message: &Message,
        error: DeliveryError<RoutingContext>,
    ) {
        let Some(answer) = NotRelayed::new(RelayError::Delivery(error), message).answer else {
            return;
        };
        let Some(asp) = sender else {
            self.indicate(SgpIndication::Returned(answer));
            return;
        };
        let context = answer.routing_context();
        if context.and_then(|context| self.asp_state(asp, context)) == Some(AspState::Active) {
            self.reply(asp, *answer);
        }
    }

    /// Changes the destination and the hop counter of a message that is relayed, and returns its application server, `None`
    /// if it is for the network.
    fn translate(
        &self,
        translations: &TranslationTable,
        network: Option<NetworkAppearance>,
        destination: &mut DestinationAddress,
        hop_counter: &mut Option<HopCounter>,
    ) -> Result<Option<RoutingContext>, RelayError> {
        // 1. Hop counter.
        if !connectionless::decrement(hop_counter) {
            return Err(RelayError::HopCounter);
        }
        // 2. Routing key.
        let default = self.config.default_application_server;
        let mut context = self.user.keys.find(network, &destination.0);
        // 3. Translation.
        if context.is_none() && matches!(destination.0.route, Route::GlobalTitle { .. }) {
            match translations.translate(network, &destination.0) {
                Ok(translated) => {
                    destination.0 = translated.address;
                    *hop_counter = hop_counter.or(HopCounter::new(15));
                    let keys = &self.user.keys;
                    let by_key = || keys.find(network, &destination.0);
                    context = translated.routing_context.or_else(by_key);
                }
                Err(error) if default.is_none() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let context = context.or(default);
        if context.is_none() && !destination.0.has_point_code() {
            return Err(RelayError::NoRoutingKey);
        }
        Ok(context)
    }
}
