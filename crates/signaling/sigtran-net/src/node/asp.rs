//! ASP on its associations with gateways: connection, state machine and the destinations that a gateway reports.

use std::sync::Arc;

use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::{Asp, AspConfig, AspConfigError, AspEvent, AspState};
use carrick_sigtran::m3ua::asp::AspRequestError;
use carrick_sigtran::m3ua::route::{Availability, DestinationTable};
use carrick_sigtran::m3ua::{AffectedPointCode, M3ua, ProtocolData, RoutingContext};

use super::Node;
use super::activation::AspRequester;
use crate::association::AssociationId;
use crate::connection::{LinkKey, PeerConnection, RemoteGateway};
use crate::event::EventKind;
use crate::layer::SocketLayer;

/// Maximum number of destinations and ranges that a gateway reports; further ones count as available.
const MAX_DESTINATIONS: usize = 16_384;

/// Link to a gateway: connection, state machine and the destinations that the gateway reports.
pub(crate) struct AspLink<L: SocketLayer = M3ua> {
    pub(crate) connection: PeerConnection,
    pub(crate) asp: Asp<L>,
    requester: AspRequester<L>,
    destinations: DestinationTable,
}

impl<L: SocketLayer> AspLink<L> {
    pub(crate) fn new(
        gateway: RemoteGateway,
        config: AspConfig<L>,
    ) -> Result<Self, AspConfigError<L::AsId>> {
        let mut destinations = DestinationTable::new(MAX_DESTINATIONS);
        destinations.set_default(Some(Availability::Available));
        Ok(Self {
            connection: PeerConnection::new(gateway, true),
            asp: Asp::new(config)?,
            requester: AspRequester::new(true, true),
            destinations,
        })
    }

    /// Returns the identifier of a message's application server; without one, that of the only application server.
    pub(crate) fn resolve(&self, id: Option<L::AsId>) -> Option<L::AsId> {
        let mut servers = self.asp.application_servers();
        match (id, servers.next(), servers.next()) {
            (None, Some(only), None) => only,
            (id, ..) => id,
        }
    }

    /// Returns whether the ASP is active in an application server.
    pub(crate) fn is_active(&self, id: Option<L::AsId>) -> bool {
        self.asp.state(self.resolve(id)) == Some(AspState::Active)
    }

    /// Returns the availability of a destination, or of a range as a whole, for messages of an application server; of an
    /// unknown destination while the ASP is active.
    pub(crate) fn availability(
        &self,
        id: Option<L::AsId>,
        destination: Option<AffectedPointCode>,
    ) -> Availability {
        if !self.is_active(id) {
            return Availability::Unavailable;
        }
        destination.map_or(Availability::Available, |destination| {
            let status = self.destinations.status_of(destination);
            status.map_or(Availability::Unavailable, |status| status.availability)
        })
    }

    pub(crate) const fn is_stopping(&self) -> bool {
        self.requester.is_stopping()
    }

    /// The association is established: requests ASP Up.
    pub(crate) fn on_connected(&mut self, now: Time, id: AssociationId, outbound_streams: u16) {
        self.connection.on_opened(id);
        self.destinations.clear();
        let up = SctpNotification::Up { outbound_streams };
        self.asp.handle_sctp(now, up);
        self.requester.on_connected(now, &mut self.asp);
    }

    /// No association, or it has ended.
    pub(crate) fn on_disconnected(&mut self, now: Time) {
        self.destinations.clear();
        self.asp.handle_sctp(now, SctpNotification::Down);
    }

    /// Reacts to a primitive of the state machine: records destinations, and requests what is due.
    pub(crate) fn on_indication(&mut self, now: Time, indication: &L::AspIndication) {
        if let Some(event) = L::destination_event(indication) {
            // What has no room counts as available.
            let _ = self.destinations.record(&event);
        }
        let Some(event) = L::asp_event(indication) else {
            return;
        };
        if let AspEvent::AspStatus(_, AspState::Inactive | AspState::Down) = event {
            // The gateway reports what is not available before its ASP Active Ack (section 4.5.1), so that this clears
            // nothing.
            self.destinations.clear();
        }
        let (asp, connection) = (&mut self.asp, &mut self.connection);
        self.requester.on_event(now, asp, connection, &event);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let retry = self.connection.poll_timeout();
        let retry = retry.filter(|_| !self.is_stopping());
        retry.into_iter().chain(self.asp.poll_timeout()).min()
    }

    /// Handles the timers. Returns whether an association is to be set up.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.asp.handle_timeout(now);
        let (asp, connection) = (&mut self.asp, &mut self.connection);
        self.requester.handle_timeout(now, asp, connection)
    }

    /// Begins the end of the link: ASP Inactive, then ASP Down. Returns whether there is nothing to wait for.
    pub(crate) fn stop(&mut self, now: Time) -> bool {
        let (asp, connection) = (&mut self.asp, &mut self.connection);
        self.requester.stop(now, asp, connection)
    }

    /// Requests what is due next while the link ends. Returns whether the association is to be shut down.
    pub(crate) fn continue_stop(&mut self, now: Time) -> bool {
        self.requester.continue_stop(now, &mut self.asp)
    }
}

impl<L: SocketLayer> Node<L> {
    /// Adds a link and begins to set up its association.
    pub(crate) fn add_link(
        &mut self,
        gateway: RemoteGateway,
        config: AspConfig<L>,
    ) -> Result<LinkKey, AspConfigError<L::AsId>> {
        let mut link = AspLink::new(gateway, config)?;
        let key = LinkKey(self.next_link);
        self.next_link += 1;
        link.connection.connect(key, &self.endpoint, &self.inputs);
        self.links.insert(key, link);
        Ok(key)
    }

    /// Ends a link: ASP Inactive, ASP Down, SHUTDOWN.
    pub(crate) fn remove_link(&mut self, key: LinkKey) {
        let now = self.clock.now();
        let Some(link) = self.links.get_mut(&key) else {
            return;
        };
        if link.stop(now) {
            self.close_link(key);
        }
        self.drain();
    }

    fn close_link(&mut self, key: LinkKey) {
        if !self.close_configured(key) {
            self.links.remove(&key);
        }
    }

    /// Returns the link for a message with this signalling link selection: one of those that are active and reach the
    /// destination.
    pub(crate) fn choose_link(
        &self,
        keys: &[LinkKey],
        id: Option<&L::AsId>,
        destination: Option<AffectedPointCode>,
        selection: u32,
    ) -> Option<LinkKey> {
        let reaches = |key: &&LinkKey| {
            let link = self.links.get(key);
            link.is_some_and(|link| {
                link.availability(id.cloned(), destination) != Availability::Unavailable
            })
        };
        let count = keys.iter().filter(reaches).count();
        let index = (selection as usize).checked_rem(count)?;
        keys.iter().filter(reaches).nth(index).copied()
    }

    pub(super) fn drain_link(&mut self, now: Time, key: LinkKey) {
        let mut may_stop = false;
        loop {
            let Some(link) = self.links.get_mut(&key) else {
                return;
            };
            let Some(indication) = link.asp.poll_indication() else {
                break;
            };
            link.on_indication(now, &indication);
            may_stop |= link.is_stopping();
            let (name, id) = (
                Arc::clone(&link.connection.name),
                link.connection.association(),
            );
            let Some(indication) = L::take_asp(self, key, indication) else {
                continue;
            };
            if let Some(AspEvent::PeerUnresponsive) = L::asp_event(&indication) {
                self.abort_unresponsive(id);
            }
            self.notify(name, EventKind::Asp(indication));
        }
        let mut closes = false;
        if let Some(link) = self.links.get_mut(&key) {
            // A confirm of the end, or its failure: what follows is due.
            closes = may_stop && link.connection.association().is_some() && link.continue_stop(now);
        }
        self.stage_link(key);
        if closes {
            self.flush();
            self.close_link(key);
        }
    }
}

impl Node<M3ua> {
    /// Sends a message as ASP on a link.
    pub(crate) fn transfer_to_link(
        &mut self,
        key: LinkKey,
        context: Option<RoutingContext>,
        data: ProtocolData,
    ) -> Result<(), AspRequestError> {
        let link = self.links.get_mut(&key);
        let link = link.ok_or(AspRequestError::NoAssociation)?;
        let context = link.resolve(context);
        link.asp.transfer(context, data)
    }
}

#[cfg(test)]
mod tests {
    use carrick_sigtran::m3ua::asp::AspApplicationServer;
    use carrick_sigtran::m3ua::{
        AffectedPointCodes, AspActive, AspInactive, AspUp, DestinationState, Message, PointCode,
    };

    use super::*;
    use crate::RemoteGateway;

    const CONTEXT: Option<RoutingContext> = Some(RoutingContext(1));

    fn receive(link: &mut AspLink, message: &Message) {
        link.asp.handle_message(Time::ZERO, 0, message);
        while let Some(indication) = link.asp.poll_indication() {
            link.on_indication(Time::ZERO, &indication);
        }
    }

    fn destination(code: u32) -> AffectedPointCode {
        AffectedPointCode::single(PointCode::new(code).unwrap())
    }

    fn unavailable(code: u32) -> Message {
        Message::DestinationUnavailable(DestinationState {
            network_appearance: None,
            routing_contexts: None,
            affected: AffectedPointCodes(vec![destination(code)]),
            info: None,
        })
    }

    /// RFC 4666, section 4.5.1: a gateway reports what is unavailable before its ASP Active Ack.
    #[test]
    fn reports_before_the_active_ack_count() {
        let config = AspConfig {
            application_servers: vec![AspApplicationServer::new(RoutingContext(1))],
            ..AspConfig::default()
        };
        let gateway = RemoteGateway::new("g", vec![[127, 0, 0, 1].into()]);
        let mut link = AspLink::new(gateway, config).unwrap();
        link.on_connected(Time::ZERO, AssociationId(1), 2);
        let [up, active] = [
            Message::AspUpAck(AspUp::default()),
            Message::AspActiveAck(AspActive::default()),
        ];
        receive(&mut link, &up);
        receive(&mut link, &unavailable(7));
        let reaches = |link: &AspLink, code| {
            link.availability(CONTEXT, Some(destination(code))) != Availability::Unavailable
        };
        assert!(!reaches(&link, 8), "not active");
        receive(&mut link, &active);
        assert!(reaches(&link, 8));
        assert!(!reaches(&link, 7));
        receive(&mut link, &Message::AspInactiveAck(AspInactive::default()));
        receive(&mut link, &active);
        assert!(reaches(&link, 7));
    }
}
