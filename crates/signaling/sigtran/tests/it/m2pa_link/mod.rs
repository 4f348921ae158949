//! States of a link of M2PA, each transition by itself.

mod alignment;
mod transfer;

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m2pa::link::*;
use carrick_sigtran::m2pa::*;

use LinkStatus::{
    Alignment, Busy, BusyEnded, OutOfService, ProcessorOutage, ProcessorRecovered, Ready,
};

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 2,
};
const START: Time = Time::from_millis(1);

pub(crate) fn msu(value: u32) -> Msu {
    Msu::new(0x8f, Bytes::copy_from_slice(&value.to_be_bytes()))
}

fn number(value: u32) -> SequenceNumber {
    SequenceNumber::new(value).expect("24 bits")
}

/// FSN and BSN before the first message.
const NONE: SequenceNumber = SequenceNumber::MAX;

fn proving(emergency: bool) -> LinkStatus {
    if emergency {
        LinkStatus::ProvingEmergency(Bytes::new())
    } else {
        LinkStatus::ProvingNormal(Bytes::new())
    }
}

/// Link whose peer is the test.
struct Subject {
    link: Link,
    now: Time,
}

impl Subject {
    /// Link with an association, out of service.
    fn new(config: LinkConfig) -> Self {
        let link = Link::new(config).expect("a valid configuration");
        let mut subject = Self { link, now: START };
        subject.link.handle_sctp(START, UP);
        assert_eq!(subject.statuses(), [(0, OutOfService)]);
        subject
    }

    /// Link in a state.
    fn in_state(state: LinkState) -> Self {
        Self::in_state_with(state, LinkConfig::default())
    }

    fn in_state_with(state: LinkState, config: LinkConfig) -> Self {
        let mut subject = Self::new(config);
        let position = |of| subject_states().iter().position(|state| *state == of);
        let reaches = |of| position(state) >= position(of);
        if reaches(LinkState::NotAligned) {
            subject.link.start(START).expect("out of service");
        }
        if reaches(LinkState::Aligned) {
            subject.receive(Alignment);
        }
        if reaches(LinkState::Proving) {
            subject.receive(proving(false));
        }
        if state == LinkState::AlignedNotReady {
            subject.link.local_processor_outage();
        }
        if reaches(LinkState::AlignedReady) {
            subject.wait(Duration::from_millis(8200));
        }
        if reaches(LinkState::InService) {
            subject.receive(Ready);
        }
        if reaches(LinkState::ProcessorOutage) {
            subject.receive(ProcessorOutage);
        }
        assert_eq!(subject.link.state(), state);
        subject.statuses();
        subject.indications();
        subject
    }

    /// Receives a Link Status on its stream.
    fn receive(&mut self, status: LinkStatus) {
        let in_sequence = matches!(status, ProcessorOutage | ProcessorRecovered);
        self.receive_on(u16::from(in_sequence), NONE, NONE, Body::LinkStatus(status));
    }

    fn receive_on(&mut self, stream: u16, bsn: SequenceNumber, fsn: SequenceNumber, body: Body) {
        let message = Message { bsn, fsn, body };
        self.link.handle_message(self.now, stream, message);
    }

    /// Receives a message with data; its content is its FSN.
    fn receive_data(&mut self, bsn: SequenceNumber, fsn: u32) {
        let body = Body::UserData(Some(msu(fsn)));
        self.receive_on(1, bsn, number(fsn), body);
    }

    fn send(&mut self, value: u32) {
        let result = self.link.send(self.now, msu(value));
        result.expect("a link in service with room in its buffers");
    }

    /// Lets time pass, from timeout to timeout.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(at) = self.link.poll_timeout().filter(|at| *at <= end) {
            self.now = at;
            self.link.handle_timeout(at);
        }
        self.now = end;
    }

    fn sent(&mut self) -> Vec<Transmit> {
        let sent: Vec<_> = std::iter::from_fn(|| self.link.poll_transmit()).collect();
        for transmit in &sent {
            let octets = transmit.message.encode().expect("a message that fits");
            assert_eq!(Message::decode(&octets).as_ref(), Ok(&transmit.message));
        }
        sent
    }

    /// Link Status messages that were sent, with their stream and without filler.
    fn statuses(&mut self) -> Vec<(u16, LinkStatus)> {
        let sent = self.sent().into_iter();
        let statuses = sent.filter_map(|transmit| match transmit.message.body {
            Body::LinkStatus(LinkStatus::ProvingNormal(_)) => {
                Some((transmit.stream, proving(false)))
            }
            Body::LinkStatus(LinkStatus::ProvingEmergency(_)) => {
                Some((transmit.stream, proving(true)))
            }
            Body::LinkStatus(status) => Some((transmit.stream, status)),
            Body::UserData(_) => None,
        });
        statuses.collect()
    }

    /// BSN, FSN and whether there is data, of the User Data that was sent.
    fn data(&mut self) -> Vec<(SequenceNumber, SequenceNumber, bool)> {
        let sent = self.sent().into_iter();
        let data = sent.filter_map(|transmit| match transmit.message.body {
            Body::UserData(msu) => {
                assert_eq!(transmit.stream, 1);
                Some((transmit.message.bsn, transmit.message.fsn, msu.is_some()))
            }
            Body::LinkStatus(_) => None,
        });
        data.collect()
    }

    fn indications(&mut self) -> Vec<LinkIndication> {
        std::iter::from_fn(|| self.link.poll_indication()).collect()
    }

    /// Expects that the link has left service for a reason, and sent Out of Service.
    fn failed(&mut self, reason: OutOfServiceReason) {
        assert_eq!(self.link.state(), LinkState::OutOfService);
        assert!(self.statuses().contains(&(0, OutOfService)));
        let indications = self.indications();
        assert!(indications.contains(&LinkIndication::OutOfService(reason)));
        assert_eq!(self.link.poll_timeout(), None);
    }
}

/// States in the order of an alignment.
fn subject_states() -> [LinkState; 8] {
    [
        LinkState::OutOfService,
        LinkState::NotAligned,
        LinkState::Aligned,
        LinkState::Proving,
        LinkState::AlignedReady,
        LinkState::AlignedNotReady,
        LinkState::InService,
        LinkState::ProcessorOutage,
    ]
}

fn received(values: &[u32]) -> Vec<LinkIndication> {
    let values = values.iter().copied();
    values.map(msu).map(LinkIndication::Received).collect()
}
