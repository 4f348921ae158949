//! Transfer of messages: screening, choice of the target, sending.

use std::sync::Arc;

use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::{AsState, TransferError};
use carrick_sigtran::m3ua::{AffectedPointCode, ProtocolData, RoutingContext};

use super::config::LinkSetSettings;
use super::discard::Discard;
use super::responses::MessageLabel;
use super::router::Target;
use super::{StpCore, TargetKind, screening};
use crate::mtp3::AdjacentRoutes;
use crate::mtp3::label::NETWORK_MANAGEMENT;
use crate::node::{IpspSide, NodeTransfer, Origin};

impl StpCore {
    pub(super) fn route_all(&mut self) {
        let mut transfers = std::mem::take(&mut self.node.transfers);
        for transfer in transfers.drain(..) {
            if let Err(why) = self.route(transfer) {
                *self.discarded.entry(why).or_default() += 1;
            }
        }
        // Keeps the allocation.
        self.node.transfers = transfers;
    }

    pub(super) fn route(&mut self, transfer: NodeTransfer) -> Result<(), Discard> {
        let from = match transfer.origin {
            Origin::Link(key) | Origin::Returned(key) => {
                // The link set was removed.
                let name = self.link_sets.get(&key).ok_or(Discard::NoRoute)?;
                Target::LinkSet(Arc::clone(name))
            }
            Origin::Asp(_, context) => Target::Server(context),
        };
        let data = transfer.data.protocol_data;
        let octets = data.user_data.len() as u64;
        let origin = self.targets.get_mut(&from).ok_or(Discard::NoRoute)?;
        // A message that a link set returned was received and screened before.
        let is_new = !matches!(transfer.origin, Origin::Returned(_));
        if is_new {
            origin.traffic.received += 1;
            origin.traffic.received_octets += octets;
        }
        let network = transfer.data.network_appearance;
        let network = network.or(origin.network_appearance);
        if data.si == NETWORK_MANAGEMENT && self.handle_management(&from, network, &data) {
            return Ok(());
        }
        if is_new && !screening::passes(&self.config.screening, &from, &data) {
            return Err(Discard::Screened);
        }
        let destination = AffectedPointCode::single(data.dpc);
        let label = MessageLabel {
            network,
            opc: data.opc,
            dpc: data.dpc,
            si: data.si,
        };
        let usable = |target: &Target| self.is_usable(target, destination);
        let back = |target: &Target| self.is_same_peer(&from, target);
        let sent = match self.router.choose(network, &data, back, usable) {
            Ok((target, sls)) => self.send(&target, sls, data).map(|()| target),
            Err(why) => Err(why.into()),
        };
        let target = sent.inspect_err(|why| {
            self.answer_discard(transfer.origin, &from, label, *why);
        })?;
        if let Some(state) = self.targets.get_mut(&target) {
            state.traffic.sent += 1;
            state.traffic.sent_octets += octets;
            if state.is_congested {
                self.answer_congestion(transfer.origin, label);
            }
        }
        Ok(())
    }

    fn send(&mut self, target: &Target, sls: u8, data: ProtocolData) -> Result<(), Discard> {
        let state = match target {
            Target::Server(context) => return Ok(self.node.transfer_to_server(*context, data)?),
            Target::LinkSet(_) => self.targets.get(target).ok_or(Discard::Unavailable)?,
        };
        match &state.kind {
            TargetKind::Server => Err(Discard::Unavailable),
            TargetKind::Asp(context, links) => {
                let (context, destination) = (*context, AffectedPointCode::single(data.dpc));
                let destination = Some(destination);
                let key = self
                    .node
                    .choose_link(links, context.as_ref(), destination, sls.into());
                let key = key.ok_or(Discard::Unavailable)?;
                Ok(self.node.transfer_to_link(key, context, data)?)
            }
            TargetKind::Ipsp(key) => {
                let now = self.node.now();
                let side = self.node.ipsps.get_mut(key);
                let side = side.ok_or(Discard::Unavailable)?;
                Ok(side.transfer(now, data).map_err(TransferError::from)?)
            }
            TargetKind::M2pa(key) => Ok(self.node.transfer_to_m2pa(*key, &data)?),
        }
    }

    /// Returns the link set of an application server whose ASPs are gateways of that link set.
    pub(super) fn link_set_of(&self, context: RoutingContext) -> Option<&LinkSetSettings> {
        let mut sets = self.config.link_sets.iter();
        sets.find(|set| set.peer == Some(context))
    }

    /// Returns whether both are the same link set, or an application server with its link set.
    pub(super) fn is_same_peer(&self, one: &Target, other: &Target) -> bool {
        match (one, other) {
            (Target::LinkSet(one), Target::LinkSet(other)) => one == other,
            (Target::LinkSet(name), Target::Server(context))
            | (Target::Server(context), Target::LinkSet(name)) => {
                let set = self.link_set_of(*context);
                set.is_some_and(|set| *set.name == **name)
            }
            (Target::Server(one), Target::Server(other)) => {
                one == other && self.link_set_of(*one).is_some()
            }
        }
    }

    /// Returns the availability of a destination, or of a range as a whole, over a target.
    pub(super) fn availability(
        &self,
        target: &Target,
        destination: AffectedPointCode,
    ) -> Availability {
        let available = |is_usable| {
            if is_usable {
                Availability::Available
            } else {
                Availability::Unavailable
            }
        };
        let Some(state) = self.targets.get(target) else {
            return Availability::Unavailable;
        };
        match (target, &state.kind) {
            (Target::Server(context), _) => available(matches!(
                self.node.gateway.sgp.as_state(*context),
                Some(AsState::Active | AsState::Pending)
            )),
            (_, TargetKind::Asp(context, links)) => {
                let links = links.iter().filter_map(|key| self.node.links.get(key));
                let all = links.map(|link| link.availability(*context, Some(destination)));
                all.max().unwrap_or_default()
            }
            (_, TargetKind::Ipsp(key)) => {
                let side = self.node.ipsps.get(key);
                available(side.is_some_and(IpspSide::is_usable))
            }
            (_, TargetKind::M2pa(key)) => match self.adjacent.get(key) {
                Some(routes) if destination.mask == 0 => {
                    routes.availability(destination.point_code)
                }
                routes => available(routes.is_some_and(AdjacentRoutes::is_ready)),
            },
            (_, TargetKind::Server) => Availability::Unavailable,
        }
    }

    /// Returns whether a target reaches a destination, or a range as a whole.
    pub(super) fn is_usable(&self, target: &Target, destination: AffectedPointCode) -> bool {
        self.availability(target, destination) != Availability::Unavailable
    }
}
