//! Link set: links to an adjacent signalling point that share the load by SLS.

use std::collections::VecDeque;
use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m2pa::link::{
    Link, LinkConfig, LinkConfigError, LinkIndication, LinkRequestError, Transmit,
};
use carrick_sigtran::m2pa::{Message, Msu, SequenceNumber};
use carrick_sigtran::m3ua::{PointCode, ProtocolData, SctpNotification};

use super::label::{LabelFormat, LinkMessage};

/// Maximum number of messages that wait for a changeover or changeback.
const MAX_HELD: usize = 10_000;

/// Configuration of a link set.
#[derive(Clone, Debug)]
pub(crate) struct LinkSetConfig {
    pub(crate) format: LabelFormat,
    pub(crate) own: PointCode,
    pub(crate) adjacent: PointCode,
    /// Network indicator of messages about links.
    pub(crate) network_indicator: u8,
    pub(crate) link: LinkConfig,
    /// Emergency proving period.
    pub(crate) emergency: bool,
    /// T2 of Q.704: wait for a changeover acknowledgement.
    pub(crate) t2: Duration,
    /// T4 and T5 of Q.704: wait for a changeback acknowledgement.
    pub(crate) t4: Duration,
    /// T17 of Q.704: delay before a link is aligned again.
    pub(crate) t17: Duration,
}

/// Reason for which a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkSetError {
    Unavailable,
    BufferFull,
    TooLong,
}

/// Indication to the routing function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LinkSetIndication {
    /// A link is available or not.
    Link(usize, bool),
    /// Received message that is not about a link.
    Received(ProtocolData),
    /// The last link failed before this message was sent: it may be sent over another link set.
    Returned(ProtocolData),
    /// Congestion began or ended.
    Congestion(bool),
}

/// Link with its procedures.
#[derive(Debug)]
pub(super) struct SignallingLink {
    pub(super) link: Link,
    pub(super) is_available: bool,
    is_congested: bool,
    /// FSN of the last message that was accepted before the link failed.
    pub(super) accepted: SequenceNumber,
    pub(super) changeover: Option<Wait>,
    /// End of T17.
    pub(super) restart: Option<Time>,
}

/// Wait for an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) until: Time,
    /// The order was sent twice.
    pub(super) is_last: bool,
}

/// Return of SLSs from an alternative link to a restored one.
#[derive(Debug)]
pub(super) struct Changeback {
    pub(super) code: u8,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) flows: Vec<usize>,
    pub(super) wait: Wait,
}

/// Traffic of an SLS.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) link: Option<usize>,
    /// Messages that wait during a changeover or changeback.
    pub(super) held: Option<VecDeque<Msu>>,
}

/// Links to an adjacent signalling point.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_timeout`](Self::handle_timeout) and [`send`](Self::send). After each input drain
/// [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call `handle_timeout` at
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub(crate) struct LinkSet {
    pub(super) config: LinkSetConfig,
    pub(super) links: Vec<SignallingLink>,
    pub(super) flows: Vec<Flow>,
    pub(super) changebacks: Vec<Changeback>,
    pub(super) last_code: u8,
    indications: VecDeque<LinkSetIndication>,
    /// Messages that could not be sent after a changeover or changeback, or whose link failed with all others.
    lost: u64,
    is_stopping: bool,
}

impl LinkSet {
    /// Link set with this number of links, which are aligned when their associations are up. The index of a link is its
    /// Signalling Link Code.
    pub(crate) fn new(
        now: Time,
        config: LinkSetConfig,
        count: usize,
    ) -> Result<Self, LinkConfigError> {
        let mut links = Vec::new();
        for _ in 0..count {
            links.push(SignallingLink {
                link: Link::new(config.link.clone())?,
                is_available: false,
                is_congested: false,
                accepted: SequenceNumber::MAX,
                changeover: None,
                restart: Some(now),
            });
        }
        let flows = (0..config.format.sls_values()).map(|_| Flow::default());
        let mut set = Self {
            flows: flows.collect(),
            links,
            config,
            changebacks: Vec::new(),
            last_code: 0,
            indications: VecDeque::new(),
            lost: 0,
            is_stopping: false,
        };
        set.handle_timeout(now);
        Ok(set)
    }

    /// Returns whether a link is available.
    pub(crate) fn is_available(&self) -> bool {
        self.links.iter().any(|link| link.is_available)
    }

    pub(crate) fn is_link_available(&self, link: usize) -> bool {
        self.links.get(link).is_some_and(|link| link.is_available)
    }

    pub(crate) fn is_congested(&self) -> bool {
        self.links.iter().any(|link| link.is_congested)
    }

    /// Returns the number of messages that were lost since the last call.
    pub(crate) const fn take_lost(&mut self) -> u64 {
        std::mem::replace(&mut self.lost, 0)
    }

    /// Sends a message on the link of its SLS. During a changeover or changeback of the SLS it waits.
    pub(crate) fn send(&mut self, now: Time, data: &ProtocolData) -> Result<(), LinkSetError> {
        let msu = self.config.format.encode(data);
        let held: usize = self.held();
        let sls = usize::from(data.sls) % self.flows.len();
        let flow = &mut self.flows[sls];
        let result = match (&mut flow.held, flow.link) {
            (Some(_), _) if held >= MAX_HELD => Err(LinkSetError::BufferFull),
            (Some(held), _) => {
                held.push_back(msu);
                Ok(())
            }
            (None, None) => Err(LinkSetError::Unavailable),
            (None, Some(link)) => {
                self.links[link]
                    .link
                    .send(now, msu)
                    .map_err(|error| match error {
                        LinkRequestError::BufferFull => LinkSetError::BufferFull,
                        LinkRequestError::Message(_) => LinkSetError::TooLong,
                        _ => LinkSetError::Unavailable,
                    })
            }
        };
        self.collect(now);
        result
    }

    /// Returns the number of messages that wait; without a procedure in progress there are none.
    fn held(&self) -> usize {
        let is_idle =
            self.changebacks.is_empty() && self.links.iter().all(|l| l.changeover.is_none());
        if is_idle {
            return 0;
        }
        let held = self.flows.iter().filter_map(|flow| flow.held.as_ref());
        held.map(VecDeque::len).sum()
    }

    pub(crate) fn handle_sctp(&mut self, now: Time, link: usize, notification: SctpNotification) {
        if let Some(link) = self.links.get_mut(link) {
            link.link.handle_sctp(now, notification);
        }
        self.collect(now);
    }

    pub(crate) fn handle_message(&mut self, now: Time, link: usize, stream: u16, message: Message) {
        if let Some(link) = self.links.get_mut(link) {
            link.link.handle_message(now, stream, message);
        }
        self.collect(now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let links = self.links.iter().flat_map(|link| {
            let changeover = link.changeover.map(|wait| wait.until);
            [link.link.poll_timeout(), link.restart, changeover]
        });
        let changebacks = self.changebacks.iter().map(|back| Some(back.wait.until));
        links.chain(changebacks).flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.link.poll_timeout().is_some_and(|at| at <= now) {
                link.link.handle_timeout(now);
            }
            if link.restart.take_if(|at| *at <= now).is_some() && !self.is_stopping {
                if self.config.emergency {
                    link.link.emergency(now);
                }
                // A link that is started already is what is wanted.
                let _ = link.link.start(now);
            }
        }
        self.expire_procedures(now);
        self.collect(now);
    }

    /// Takes all links out of service, for the end.
    pub(crate) fn stop(&mut self, now: Time) {
        self.is_stopping = true;
        for link in &mut self.links {
            link.link.stop();
        }
        self.collect(now);
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<(usize, Transmit)> {
        let mut links = self.links.iter_mut().enumerate();
        links.find_map(|(index, link)| Some((index, link.link.poll_transmit()?)))
    }

    pub(crate) fn poll_indication(&mut self) -> Option<LinkSetIndication> {
        self.indications.pop_front()
    }

    /// Reacts to the indications of the links.
    fn collect(&mut self, now: Time) {
        let next = |links: &mut Vec<SignallingLink>| {
            let mut links = links.iter_mut().enumerate();
            links.find_map(|(index, link)| Some((index, link.link.poll_indication()?)))
        };
        while let Some((index, indication)) = next(&mut self.links) {
            match indication {
                LinkIndication::InService => self.on_in_service(now, index),
                LinkIndication::OutOfService(_) => self.on_out_of_service(now, index),
                LinkIndication::Received(msu) => self.on_received(now, index, &msu),
                LinkIndication::CongestionOnset => self.on_congestion(index, true),
                LinkIndication::CongestionAbatement => self.on_congestion(index, false),
                // Messages wait in the link's buffers.
                LinkIndication::RemoteProcessorOutage
                | LinkIndication::RemoteProcessorOutageCeases => {}
            }
        }
    }

    pub(super) fn on_congestion(&mut self, link: usize, is_congested: bool) {
        let before = self.is_congested();
        self.links[link].is_congested = is_congested;
        if before != self.is_congested() {
            self.indicate(LinkSetIndication::Congestion(is_congested));
        }
    }

    /// Handles a message: one about a link is for this signalling point, others for its routing function.
    fn on_received(&mut self, now: Time, via: usize, msu: &Msu) {
        let Some(data) = self.config.format.decode(msu) else {
            self.lost += 1;
            return;
        };
        let is_about_link = data.dpc == self.config.own && data.opc == self.config.adjacent;
        let message = is_about_link.then(|| self.config.format.parse_link_message(&data));
        match message.flatten() {
            None => self.indicate(LinkSetIndication::Received(data)),
            Some(LinkMessage::ChangeoverOrder(slc, fsn)) => self.on_order(now, via, slc, fsn),
            Some(LinkMessage::ChangeoverAck(slc, fsn)) => {
                self.on_changeover_ack(now, slc, fsn);
            }
            Some(LinkMessage::ChangebackDeclaration(slc, code)) => {
                let ack = LinkMessage::ChangebackAck(slc, code);
                self.send_link_message(now, via, &ack);
            }
            Some(LinkMessage::ChangebackAck(_, code)) => self.on_changeback_ack(now, code),
            Some(LinkMessage::Test(slc, si, pattern)) => {
                let ack = LinkMessage::TestAck(slc, si, pattern);
                self.send_link_message(now, via, &ack);
            }
            // No tests are sent.
            Some(LinkMessage::TestAck(..)) => {}
        }
    }

    pub(super) fn send_link_message(&mut self, now: Time, via: usize, message: &LinkMessage) {
        let codes = [self.config.own, self.config.adjacent];
        let format = self.config.format;
        let data = format.link_message(codes, self.config.network_indicator, message);
        // If the link fails, so does the procedure that waits for the answer.
        let _ = self.links[via].link.send(now, format.encode(&data));
    }

    pub(super) fn indicate(&mut self, indication: LinkSetIndication) {
        self.indications.push_back(indication);
    }

    pub(super) const fn count_lost(&mut self, messages: u64) {
        self.lost += messages;
    }
}
