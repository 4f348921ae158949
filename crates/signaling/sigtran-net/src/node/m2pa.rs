//! Link set over M2PA: the state machine with the connections of its links (RFC 4165).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick::{Config, Endpoint};
use carrick_proto::Time;
use carrick_sigtran::m2pa::Message;
use carrick_sigtran::m2pa::link::{BufferLimit, LinkConfig, LinkConfigError};
use carrick_sigtran::m3ua::{
    Data, M3ua, NetworkAppearance, PointCode, ProtocolData, SctpNotification,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::{Node, NodeTransfer, Origin};
use crate::association::{AssociationId, Input, MAX_QUEUED};
use crate::connection::{LinkKey, PeerConnection, RemoteGateway};
use crate::event::EventKind;
use crate::layer::SocketLayer;
use crate::mtp3::label::LabelFormat;
use crate::mtp3::{LinkSet, LinkSetConfig, LinkSetError, LinkSetIndication};

/// T7 of M2PA. It is longer than the change to another path, so that this does not end the link.
const T7: Duration = Duration::from_secs(3);

/// T2, T4 and T17 of Q.704, within their ranges.
const T2: Duration = Duration::from_millis(1500);
const T4: Duration = Duration::from_millis(1000);
const T17: Duration = Duration::from_millis(1000);

/// Messages of MTP3 that may wait on a link: fewer than its association takes, which discards none.
const TRANSMIT_LIMIT: BufferLimit = BufferLimit {
    messages: MAX_QUEUED / 2,
    octets: 4 << 20,
};

/// Link set over M2PA.
#[derive(Clone, Debug)]
pub(crate) struct M2paConfig {
    /// Bits of a point code: 14, 16 or 24.
    pub(crate) point_code_bits: u8,
    pub(crate) own: PointCode,
    pub(crate) adjacent: PointCode,
    pub(crate) network_indicator: u8,
    pub(crate) network_appearance: Option<NetworkAppearance>,
    pub(crate) emergency: bool,
    pub(crate) links: Vec<M2paLinkConfig>,
}

/// Link of a link set; its index is the Signalling Link Code.
#[derive(Clone, Debug)]
pub(crate) struct M2paLinkConfig {
    pub(crate) remote: RemoteGateway,
    /// This end sets the association up.
    pub(crate) connects: bool,
    /// Endpoint of the link: two links to a peer have different ports.
    pub(crate) endpoint: Config,
}

/// Key of a link set in a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct M2paKey(pub(crate) u32);

pub(crate) struct M2paLink {
    pub(crate) index: usize,
    pub(crate) connection: PeerConnection,
    config: Config,
    connects: bool,
    endpoint: Option<Endpoint>,
    accepting: Option<AbortHandle>,
}

impl Drop for M2paLink {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

impl M2paLink {
    /// Opens the endpoint if it is not open, and begins to set up the association or to accept it.
    pub(crate) fn open(
        &mut self,
        key: LinkKey,
        inputs: &mpsc::Sender<Input>,
    ) -> Result<(), String> {
        let endpoint = if let Some(endpoint) = &self.endpoint {
            endpoint
        } else {
            let endpoint = Endpoint::bind(self.config.clone()).map_err(|e| e.to_string())?;
            if !self.connects {
                let accepting = super::accept(endpoint.clone(), Some(key), inputs.clone());
                self.accepting = Some(tokio::spawn(accepting).abort_handle());
            }
            self.endpoint.insert(endpoint)
        };
        self.connection.connect(key, endpoint, inputs);
        Ok(())
    }
}

/// State machine with the connections of its links.
pub(crate) struct M2paSide {
    pub(crate) set: LinkSet,
    pub(crate) network_appearance: Option<NetworkAppearance>,
    pub(crate) links: BTreeMap<LinkKey, M2paLink>,
    is_stopping: bool,
}

impl M2paSide {
    /// Link set whose links have keys from `first` on.
    pub(crate) fn new(
        now: Time,
        config: M2paConfig,
        first: LinkKey,
    ) -> Result<Self, LinkConfigError> {
        let set = LinkSetConfig {
            format: LabelFormat::new(config.point_code_bits),
            own: config.own,
            adjacent: config.adjacent,
            network_indicator: config.network_indicator,
            link: LinkConfig {
                t7: T7,
                transmit_limit: TRANSMIT_LIMIT,
                ..LinkConfig::default()
            },
            emergency: config.emergency,
            t2: T2,
            t4: T4,
            t17: T17,
        };
        let set = LinkSet::new(now, set, config.links.len())?;
        let links = (first.0..).zip(config.links.into_iter().enumerate());
        let links = links.map(|(key, (index, link))| {
            let link = M2paLink {
                index,
                connection: PeerConnection::new(link.remote, link.connects),
                config: link.endpoint,
                connects: link.connects,
                endpoint: None,
                accepting: None,
            };
            (LinkKey(key), link)
        });
        Ok(Self {
            set,
            network_appearance: config.network_appearance,
            links: links.collect(),
            is_stopping: false,
        })
    }

    pub(crate) const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns the link with this Signalling Link Code.
    pub(crate) fn link_at(&self, index: usize) -> Option<&M2paLink> {
        self.links.values().find(|link| link.index == index)
    }

    pub(crate) fn on_connected(
        &mut self,
        now: Time,
        key: LinkKey,
        id: AssociationId,
        outbound_streams: u16,
    ) {
        if let Some(link) = self.links.get_mut(&key) {
            link.connection.on_opened(id);
            link.connection.reset_backoff();
            let up = SctpNotification::Up { outbound_streams };
            self.set.handle_sctp(now, link.index, up);
        }
    }

    pub(crate) fn handle_sctp(&mut self, now: Time, key: LinkKey, notification: SctpNotification) {
        if let Some(link) = self.links.get(&key) {
            self.set.handle_sctp(now, link.index, notification);
        }
    }

    /// Handles a message. Returns whether it could be decoded.
    pub(crate) fn on_message(
        &mut self,
        now: Time,
        key: LinkKey,
        stream: u16,
        octets: &Bytes,
    ) -> bool {
        let (Some(link), Ok(message)) = (self.links.get(&key), Message::decode(octets)) else {
            return false;
        };
        self.set.handle_message(now, link.index, stream, message);
        true
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let links = self.links.values().filter(|_| !self.is_stopping);
        let retries = links.filter_map(|link| link.connection.poll_timeout());
        retries.chain(self.set.poll_timeout()).min()
    }

    /// Handles the timers. Returns the links to be opened.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> Vec<LinkKey> {
        self.set.handle_timeout(now);
        let links = self.links.iter_mut().filter(|_| !self.is_stopping);
        let due = links.filter_map(|(key, link)| {
            let connection = &mut link.connection;
            (connection.is_due(now) && connection.is_idle()).then_some(*key)
        });
        due.collect()
    }

    /// Takes all links out of service, for the end.
    pub(crate) fn stop(&mut self, now: Time) {
        self.is_stopping = true;
        self.set.stop(now);
        for link in self.links.values_mut() {
            link.connection.cancel();
        }
    }
}

impl<L: SocketLayer> Node<L> {
    /// Adds a link set over M2PA and begins to set up its links. Returns its key and those of the links.
    pub(crate) fn add_m2pa(
        &mut self,
        config: M2paConfig,
    ) -> Result<(M2paKey, Vec<LinkKey>), LinkConfigError> {
        let (key, now) = (M2paKey(self.next_link), self.clock.now());
        let side = M2paSide::new(now, config, LinkKey(self.next_link))?;
        let links: Vec<_> = side.links.keys().copied().collect();
        self.next_link += links.len().max(1) as u32;
        self.m2pas.insert(key, side);
        for link in &links {
            self.open_m2pa_link(now, key, *link);
        }
        Ok((key, links))
    }

    /// Opens the endpoint of a link and begins to set up its association; repeats it after a failure.
    pub(super) fn open_m2pa_link(&mut self, now: Time, m2pa: M2paKey, key: LinkKey) {
        let side = self.m2pas.get_mut(&m2pa);
        let Some(link) = side.and_then(|side| side.links.get_mut(&key)) else {
            return;
        };
        if let Err(reason) = link.open(key, &self.inputs) {
            let name = Arc::clone(&link.connection.name);
            let wait = link.connection.schedule(now);
            self.notify(name, EventKind::ConnectFailed(reason, wait));
        }
    }

    /// Ends a link set over M2PA: Out of Service and SHUTDOWN on each link.
    pub(crate) fn remove_m2pa(&mut self, key: M2paKey) {
        let now = self.clock.now();
        let Some(side) = self.m2pas.get_mut(&key) else {
            return;
        };
        side.stop(now);
        let links: Vec<_> = side.links.keys().copied().collect();
        self.flush();
        for link in links {
            self.close_m2pa_link(key, link);
        }
    }

    /// Shuts the association of a link down, or removes the link without one; its set is removed with the last one.
    pub(super) fn close_m2pa_link(&mut self, m2pa: M2paKey, key: LinkKey) {
        if self.close_configured(key) {
            return;
        }
        if let Some(side) = self.m2pas.get_mut(&m2pa) {
            side.links.remove(&key);
            if side.links.is_empty() {
                self.m2pas.remove(&m2pa);
            }
        }
    }

    /// Sends a message over a link set of M2PA.
    pub(crate) fn transfer_to_m2pa(
        &mut self,
        key: M2paKey,
        data: &ProtocolData,
    ) -> Result<(), LinkSetError> {
        let now = self.clock.now();
        let side = self.m2pas.get_mut(&key);
        let side = side.ok_or(LinkSetError::Unavailable)?;
        side.set.send(now, data)
    }
}

impl Node<M3ua> {
    pub(crate) fn drain_m2pa(&mut self, m2pa: M2paKey) {
        if let Some(side) = self.m2pas.get_mut(&m2pa) {
            self.counters.not_diverted += side.set.take_lost();
        }
        while let Some(side) = self.m2pas.get_mut(&m2pa)
            && let Some((index, transmit)) = side.set.poll_transmit()
        {
            let link = side.link_at(index);
            let id = link.and_then(|link| link.connection.association());
            self.stage_octets(id, transmit.stream, false, transmit.message.encode().ok());
        }
        while let Some(side) = self.m2pas.get_mut(&m2pa)
            && let Some(indication) = side.set.poll_indication()
        {
            let Some(first) = side.links.keys().next().copied() else {
                return;
            };
            let network_appearance = side.network_appearance;
            let data = |protocol_data| Data {
                network_appearance,
                routing_context: None,
                protocol_data,
                correlation_id: None,
            };
            let (origin, data) = match indication {
                LinkSetIndication::Received(message) => (Origin::Link(first), data(message)),
                LinkSetIndication::Returned(message) => (Origin::Returned(first), data(message)),
                LinkSetIndication::Link(index, is_available) => {
                    let link = side.link_at(index);
                    if let Some(name) = link.map(|link| Arc::clone(&link.connection.name)) {
                        self.notify(name, EventKind::Link(is_available));
                    }
                    continue;
                }
                LinkSetIndication::Congestion(is_congested) => {
                    if let Some(name) = self.name(first) {
                        self.notify(name, EventKind::Congestion(is_congested));
                    }
                    continue;
                }
            };
            self.transfers.push(NodeTransfer { origin, data });
        }
    }
}
