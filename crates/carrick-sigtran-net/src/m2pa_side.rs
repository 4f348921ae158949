//! Link set over M2PA: the state machine with the connections of its links (RFC 4165).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carrick::{Config, Endpoint};
use carrick_proto::Time;
use carrick_sigtran::m2pa::Message;
use carrick_sigtran::m2pa::link::{BufferLimit, LinkConfig, LinkConfigError};
use carrick_sigtran::m3ua::{NetworkAppearance, PointCode, SctpNotification};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::association::{AssociationId, Input, MAX_QUEUED};
use crate::connection::{LinkKey, PeerConnection, RemoteGateway};
use crate::mtp3::label::LabelFormat;
use crate::mtp3::{LinkSet, LinkSetConfig};

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
                let accepting = crate::node::accept(endpoint.clone(), Some(key), inputs.clone());
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
