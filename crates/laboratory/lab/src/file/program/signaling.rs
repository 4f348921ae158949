//! Adaptation layers between the messages of a flow and its associations: M3UA (RFC 4666), M2PA (RFC 4165), and a link
//! set of M2PA links with the changeover of MTP3.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::m2pa::link::{Link, LinkConfig, LinkIndication, LinkState, Retrieval};
use carrick_sigtran::m2pa::{self, Msu, SequenceNumber};
use carrick_sigtran::m3ua::asp::{Asp, AspApplicationServer, AspConfig, AspIndication, AspState};
use carrick_sigtran::m3ua::sgp::{
    ApplicationServerConfig, AsState, AspKey, SgpAspConfig, SgpConfig, SgpIndication,
    SignallingGatewayProcess,
};
use carrick_sigtran::m3ua::{self, PointCode, ProtocolData, RoutingContext, RoutingKeyDestination};

use super::super::model::Layer;
use crate::numbered::number_of;

/// Application server of M3UA.
const CONTEXT: RoutingContext = RoutingContext(1);
/// SCCP in the national network: service indicator and network indicator.
const SI: u8 = 3;
const NI: u8 = 2;
/// Service Information Octet of the same.
const SIO: u8 = NI << 6 | SI;
/// The same of signaling network management, for changeover messages.
const SIO_MANAGEMENT: u8 = NI << 6;

/// State machine of a layer at one end of an association.
#[derive(Debug)]
pub(super) enum Adaptation {
    Asp(Box<Asp>),
    Sgp(Box<SignallingGatewayProcess>, AspKey),
    Link(Box<Link>),
}

/// Message for the association.
pub(super) struct Encoded {
    pub(super) stream: u16,
    pub(super) ppid: u32,
    pub(super) octets: Bytes,
    /// Number of the message of the flow in it.
    pub(super) number: Option<u64>,
}

/// Indication to the layer above.
enum Indication {
    /// Message of the flow.
    Message(Bytes),
    /// The peer's changeover message of MTP3.
    Changeover(Changeover),
    /// The link of M2PA is out of service.
    OutOfService,
}

/// Changeover order or acknowledgement, with the BSN of the last message that was accepted on the failed link (RFC 4165,
/// section 4.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Changeover {
    acknowledges: bool,
    accepted: SequenceNumber,
}

impl Changeover {
    fn encode(self) -> Bytes {
        let mut octets = BytesMut::new();
        octets.put_u8(self.acknowledges.into());
        octets.put_u32(self.accepted.value());
        octets.freeze()
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let (acknowledges, number) = octets.split_first()?;
        let accepted = SequenceNumber::new(u32::from_be_bytes(number.try_into().ok()?))?;
        Some(Self {
            acknowledges: *acknowledges != 0,
            accepted,
        })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Adaptation {
    /// Returns the state machine of an end: the sender (0) is the ASP, the receiver (1) the SGP.
    ///
    /// # Errors
    /// Text of an invalid configuration.
    fn new(layer: Layer, end: usize) -> Result<Self, String> {
        Ok(match layer {
            Layer::Sctp | Layer::M2pa | Layer::M2paLinks => {
                let mut link = Link::new(LinkConfig::default()).map_err(text)?;
                link.emergency(Time::ZERO);
                Self::Link(Box::new(link))
            }
            Layer::M3ua if end == 0 => {
                let config = AspConfig {
                    application_servers: vec![AspApplicationServer::new(CONTEXT)],
                    ..AspConfig::default()
                };
                Self::Asp(Box::new(Asp::new(config).map_err(text)?))
            }
            Layer::M3ua => {
                let mut sgp = SignallingGatewayProcess::new(SgpConfig::default());
                let destination = RoutingKeyDestination::all(PointCode::MAX);
                let server = ApplicationServerConfig::new(CONTEXT, vec![destination]);
                sgp.add_application_server(server).map_err(text)?;
                let asp = SgpAspConfig {
                    identifier: None,
                    application_servers: vec![CONTEXT],
                };
                let key = sgp.add_asp(asp).map_err(text)?;
                Self::Sgp(Box::new(sgp), key)
            }
        })
    }

    /// Handles the establishment of the association: the ASP becomes active, or the link is aligned with the emergency
    /// proving period.
    pub(super) fn associated(&mut self, now: Time, outbound_streams: u16) -> Result<(), String> {
        let up = SctpNotification::Up { outbound_streams };
        match self {
            Self::Asp(asp) => {
                asp.handle_sctp(now, up);
                asp.asp_up(now).map_err(text)
            }
            Self::Sgp(sgp, key) => {
                sgp.handle_sctp(now, *key, up);
                Ok(())
            }
            Self::Link(link) => {
                link.handle_sctp(now, up);
                link.start(now).map_err(text)
            }
        }
    }

    /// Handles the loss of the association.
    pub(super) fn association_lost(&mut self, now: Time) {
        let down = SctpNotification::Down;
        match self {
            Self::Asp(asp) => asp.handle_sctp(now, down),
            Self::Sgp(sgp, key) => sgp.handle_sctp(now, *key, down),
            Self::Link(link) => link.handle_sctp(now, down),
        }
    }

    /// Returns whether messages of the flow can be sent.
    fn is_ready(&self) -> bool {
        match self {
            Self::Asp(asp) => asp.state(Some(CONTEXT)) == Some(AspState::Active),
            Self::Sgp(sgp, _) => sgp.as_state(CONTEXT) == Some(AsState::Active),
            Self::Link(link) => link.state() == LinkState::InService,
        }
    }

    /// Sends a message of the flow.
    ///
    /// # Errors
    /// Text of the refusal.
    fn send(&mut self, now: Time, message: Bytes) -> Result<(), String> {
        match self {
            Self::Asp(asp) => {
                let data = ProtocolData {
                    opc: PointCode::MAX,
                    dpc: PointCode::MAX,
                    si: SI,
                    ni: NI,
                    mp: 0,
                    sls: 0,
                    user_data: message,
                };
                asp.transfer(Some(CONTEXT), data).map_err(text)
            }
            Self::Sgp(..) => Err("the gateway receives only".into()),
            Self::Link(link) => link.send(now, Msu::new(SIO, message)).map_err(text),
        }
    }

    /// Handles a message of the peer.
    ///
    /// # Errors
    /// Text of a message that can't be decoded.
    pub(super) fn handle_message(
        &mut self,
        now: Time,
        stream: u16,
        octets: &Bytes,
    ) -> Result<(), String> {
        let m3ua = || m3ua::Message::decode(octets).map_err(text);
        match self {
            Self::Asp(asp) => asp.handle_message(now, stream, &m3ua()?),
            Self::Sgp(sgp, key) => sgp.handle_message(now, *key, stream, &m3ua()?),
            Self::Link(link) => {
                let message = m2pa::Message::decode(octets).map_err(text)?;
                link.handle_message(now, stream, message);
            }
        }
        Ok(())
    }

    /// Returns the next message for the association.
    ///
    /// # Errors
    /// Text of a message that can't be encoded.
    fn poll_transmit(&mut self) -> Result<Option<Encoded>, String> {
        let m3ua = |transmit: m3ua::Transmit| {
            let number = match &transmit.message {
                m3ua::Message::Data(data) => number_of(&data.protocol_data.user_data),
                _ => None,
            };
            Ok(Encoded {
                stream: transmit.stream,
                ppid: m3ua::PAYLOAD_PROTOCOL_ID,
                octets: transmit.message.encode().map_err(text)?,
                number,
            })
        };
        match self {
            Self::Asp(asp) => asp.poll_transmit().map(m3ua).transpose(),
            Self::Sgp(sgp, _) => sgp.poll_transmit().map(|(_, own)| m3ua(own)).transpose(),
            Self::Link(link) => {
                let Some(transmit) = link.poll_transmit() else {
                    return Ok(None);
                };
                let number = match &transmit.message.body {
                    m2pa::Body::UserData(Some(msu)) if msu.sio == SIO => number_of(&msu.sif),
                    _ => None,
                };
                Ok(Some(Encoded {
                    stream: transmit.stream,
                    ppid: m2pa::PAYLOAD_PROTOCOL_ID,
                    octets: transmit.message.encode().map_err(text)?,
                    number,
                }))
            }
        }
    }

    /// Returns the next indication. An ASP that is up becomes active.
    fn poll_indication(&mut self, now: Time) -> Option<Indication> {
        loop {
            match self {
                Self::Asp(asp) => match asp.poll_indication()? {
                    // Of all application servers; there is one, and no other request for it.
                    AspIndication::AspUp(Ok(())) => drop(asp.asp_active(now, &[])),
                    AspIndication::Transfer(data) => {
                        return Some(Indication::Message(data.protocol_data.user_data));
                    }
                    _ => {}
                },
                Self::Sgp(sgp, _) => {
                    if let SgpIndication::Transfer(_, _, data) = sgp.poll_indication()? {
                        return Some(Indication::Message(data.protocol_data.user_data));
                    }
                }
                Self::Link(link) => match link.poll_indication()? {
                    LinkIndication::Received(msu) if msu.sio == SIO => {
                        return Some(Indication::Message(msu.sif));
                    }
                    LinkIndication::Received(msu) => {
                        if let Some(changeover) = Changeover::decode(&msu.sif) {
                            return Some(Indication::Changeover(changeover));
                        }
                    }
                    LinkIndication::OutOfService(_) => return Some(Indication::OutOfService),
                    _ => {}
                },
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Self::Asp(asp) => asp.poll_timeout(),
            Self::Sgp(sgp, _) => sgp.poll_timeout(),
            Self::Link(link) => link.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Asp(asp) => asp.handle_timeout(now),
            Self::Sgp(sgp, _) => sgp.handle_timeout(now),
            Self::Link(link) => link.handle_timeout(now),
        }
    }
}

/// End of a flow with a layer: one association, or with two links of M2PA an association for each, between which MTP3
/// changes over.
#[derive(Debug)]
pub(in crate::file) struct Signaling {
    links: Vec<Adaptation>,
    /// Link that carries traffic.
    current: usize,
    /// A changeover order was sent and not acknowledged; messages wait.
    changing: bool,
    waiting: VecDeque<Bytes>,
}

impl Signaling {
    /// Returns the end of a flow; `None` without a layer.
    ///
    /// # Errors
    /// Text of an invalid configuration.
    pub(in crate::file) fn new(layer: Layer, end: usize) -> Result<Option<Self>, String> {
        let count = match layer {
            Layer::Sctp => return Ok(None),
            Layer::M3ua | Layer::M2pa => 1,
            Layer::M2paLinks => 2,
        };
        let links = (0..count).map(|_| Adaptation::new(layer, end));
        Ok(Some(Self {
            links: links.collect::<Result<_, _>>()?,
            current: 0,
            changing: false,
            waiting: VecDeque::new(),
        }))
    }

    pub(super) fn link(&mut self, number: usize) -> &mut Adaptation {
        &mut self.links[number]
    }

    /// Returns whether messages of the flow can be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.links.iter().all(Adaptation::is_ready)
    }

    /// Sends a message of the flow, or lets it wait during a changeover.
    ///
    /// # Errors
    /// Text of the refusal.
    pub(super) fn send(&mut self, now: Time, message: Bytes) -> Result<(), String> {
        if self.changing {
            self.waiting.push_back(message);
            return Ok(());
        }
        self.links[self.current].send(now, message)
    }

    /// Returns the next message of the flow, and handles other indications.
    ///
    /// # Errors
    /// Text of a changeover that is not possible.
    pub(super) fn poll_message(&mut self, now: Time) -> Result<Option<Bytes>, String> {
        for number in 0..self.links.len() {
            while let Some(indication) = self.links[number].poll_indication(now) {
                match indication {
                    Indication::Message(message) => return Ok(Some(message)),
                    Indication::OutOfService => self.begin_changeover(now, number)?,
                    Indication::Changeover(message) => {
                        self.handle_changeover(now, number, message)?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the next message for an association, with the number of its link.
    ///
    /// # Errors
    /// Text of a message that can't be encoded.
    pub(super) fn poll_transmit(&mut self) -> Result<Option<(usize, Encoded)>, String> {
        for (number, link) in self.links.iter_mut().enumerate() {
            if let Some(encoded) = link.poll_transmit()? {
                return Ok(Some((number, encoded)));
            }
        }
        Ok(None)
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.links.iter().filter_map(Adaptation::poll_timeout).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        for link in &mut self.links {
            link.handle_timeout(now);
        }
    }

    /// Begins the changeover from a link out of service, if it carries the traffic, with an order on the other link.
    fn begin_changeover(&mut self, now: Time, failed: usize) -> Result<(), String> {
        if self.links.len() < 2 || failed != self.current || self.changing {
            return Ok(());
        }
        self.changing = true;
        self.send_changeover(now, failed, false)
    }

    /// Handles a changeover message, which arrives on the link that remains (Q.704, section 5):
    /// 1. The failed link is stopped here, too, and an order is acknowledged.
    /// 2. Messages that the peer has not accepted are retrieved, and go to the other link before those that wait.
    fn handle_changeover(
        &mut self,
        now: Time,
        remaining: usize,
        message: Changeover,
    ) -> Result<(), String> {
        let failed = 1 - remaining;
        // 1.
        self.m2pa(failed)?.stop();
        if !message.acknowledges {
            self.send_changeover(now, failed, true)?;
        }
        // 2.
        if self.current != failed {
            return Ok(());
        }
        let retrieval = Retrieval::After(message.accepted);
        let retrieved = self.m2pa(failed)?.retrieve(retrieval).map_err(text)?;
        let retrieved = retrieved.into_iter().map(|msu| msu.sif);
        self.current = remaining;
        self.changing = false;
        for message in retrieved.chain(std::mem::take(&mut self.waiting)) {
            self.send(now, message)?;
        }
        Ok(())
    }

    /// Sends a changeover message on the link that remains.
    fn send_changeover(
        &mut self,
        now: Time,
        failed: usize,
        acknowledges: bool,
    ) -> Result<(), String> {
        let message = Changeover {
            acknowledges,
            accepted: self.m2pa(failed)?.retrieve_bsnt(),
        };
        let msu = Msu::new(SIO_MANAGEMENT, message.encode());
        self.m2pa(1 - failed)?.send(now, msu).map_err(text)
    }

    fn m2pa(&mut self, number: usize) -> Result<&mut Link, String> {
        match self.links.get_mut(number) {
            Some(Adaptation::Link(link)) => Ok(link),
            _ => Err("a changeover without a second link".into()),
        }
    }
}
