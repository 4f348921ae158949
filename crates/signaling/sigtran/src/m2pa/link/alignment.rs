//! Initial alignment and Out of Service (RFC 4165, sections 4.1.3 and 4.1.6).

use bytes::Bytes;
use carrick_proto::Time;

use super::buffers::{ReceiveBuffer, TransmitBuffers};
use super::{
    Body, ExpectedReady, Link, LinkIndication, LinkRequestError, LinkState, LinkStatus,
    OutOfServiceReason, SequenceNumber, USER_DATA_STREAM,
};

impl Link {
    /// Requests that the link is aligned (Start). Without an association, the alignment begins when it is up.
    ///
    /// # Errors
    /// [`LinkRequestError::Started`] if the link is not out of service, or waits for its association.
    pub fn start(&mut self, now: Time) -> Result<(), LinkRequestError> {
        if self.state != LinkState::OutOfService || self.start_requested {
            return Err(LinkRequestError::Started);
        }
        if self.associated {
            self.begin_alignment(now);
        } else {
            self.start_requested = true;
        }
        Ok(())
    }

    /// Requests the emergency proving period (Emergency).
    pub fn emergency(&mut self, now: Time) {
        self.emergency = true;
        match self.state {
            LinkState::Aligned => self.send_proving(),
            LinkState::Proving => {
                self.send_proving();
                self.start_t4(now);
            }
            _ => {}
        }
    }

    /// Requests the normal proving period for later alignments (Emergency Ceases).
    pub const fn emergency_ceases(&mut self) {
        self.emergency = false;
    }

    /// Discards the messages of the last alignment and begins one.
    pub(super) fn begin_alignment(&mut self, now: Time) {
        self.start_requested = false;
        self.end_procedures();
        self.transmit_buffers = TransmitBuffers::new(self.config.transmit_limit);
        self.receive_buffer = ReceiveBuffer::new(self.config.receive_limit);
        self.state = LinkState::NotAligned;
        self.send_on_link_status_stream(LinkStatus::Alignment);
        self.alignment_timer = Some(now + self.config.t2);
    }

    pub(super) fn handle_out_of_service(&mut self) {
        if !matches!(self.state, LinkState::OutOfService | LinkState::NotAligned) {
            self.fail(OutOfServiceReason::PeerOutOfService);
        }
    }

    pub(super) fn handle_alignment(&mut self, now: Time) {
        match self.state {
            LinkState::OutOfService | LinkState::Aligned => {}
            LinkState::NotAligned => self.enter_aligned(now),
            LinkState::Proving => {
                // The peer begins again: what it sent before is void.
                self.end_procedures();
                self.receive_buffer.discard();
                self.enter_aligned(now);
            }
            _ => self.fail(OutOfServiceReason::PeerRealigned),
        }
    }

    /// Handles Proving Normal or Proving Emergency. In other states they are late: a message on the User Data stream
    /// has overtaken them.
    pub(super) fn handle_proving(&mut self, now: Time, emergency: bool) {
        match self.state {
            LinkState::NotAligned => {
                self.peer_emergency |= emergency;
                self.enter_aligned(now);
            }
            LinkState::Aligned => {
                self.peer_emergency |= emergency;
                self.state = LinkState::Proving;
                self.start_t4(now);
                self.send_proving();
                self.next_proving = Some(now + self.config.proving_interval);
            }
            LinkState::Proving => {
                let shortened = emergency && !self.emergency && !self.peer_emergency;
                if shortened {
                    self.peer_emergency = true;
                    self.start_t4(now);
                }
            }
            _ => {}
        }
    }

    /// Handles a Ready at the end of the alignment or of a processor outage.
    pub(super) fn handle_ready(&mut self, now: Time, stream: u16, bsn: SequenceNumber) {
        let expected = (stream == USER_DATA_STREAM).then(|| self.expected_readys.pop_front());
        let answers_recovery = expected.flatten() == Some(ExpectedReady::ToRecovered);
        match self.state {
            LinkState::Proving => self.peer_ready = true,
            LinkState::AlignedReady | LinkState::AlignedNotReady => {
                if answers_recovery {
                    self.send_in_sequence(Body::LinkStatus(LinkStatus::Ready));
                }
                self.enter_service(now);
            }
            _ if answers_recovery => self.complete_recovery(now, bsn),
            _ => {}
        }
    }

    pub(super) fn expire_alignment_timer(&mut self, now: Time) {
        match self.state {
            LinkState::Proving => self.complete_alignment(now),
            LinkState::AlignedReady | LinkState::AlignedNotReady => {
                self.fail(OutOfServiceReason::PeerNotReady);
            }
            _ => self.fail(OutOfServiceReason::AlignmentNotPossible),
        }
    }

    /// Sends a Proving message whose filler differs from that of the last one (section 2.3.2.1).
    pub(super) fn send_proving(&mut self) {
        self.provings = self.provings.wrapping_add(1);
        let pattern = self.provings.to_be_bytes();
        let filler = pattern.iter().rev().cycle().copied();
        let filler: Bytes = filler.take(self.config.proving_filler).collect();
        self.send_on_link_status_stream(if self.emergency {
            LinkStatus::ProvingEmergency(filler)
        } else {
            LinkStatus::ProvingNormal(filler)
        });
    }

    fn enter_aligned(&mut self, now: Time) {
        self.state = LinkState::Aligned;
        self.alignment_timer = Some(now + self.config.t3);
        self.send_proving();
    }

    fn start_t4(&mut self, now: Time) {
        let t4 = if self.emergency || self.peer_emergency {
            self.config.t4_emergency
        } else {
            self.config.t4_normal
        };
        self.alignment_timer = Some(now + t4);
    }

    /// Ends the proving period. If the peer completed its own before, the link is in service.
    fn complete_alignment(&mut self, now: Time) {
        self.next_proving = None;
        self.alignment_timer = Some(now + self.config.t1);
        if self.local_outage {
            self.state = LinkState::AlignedNotReady;
            self.send_in_sequence(Body::LinkStatus(LinkStatus::ProcessorOutage));
        } else {
            self.state = LinkState::AlignedReady;
            self.send_on_link_status_stream(LinkStatus::Ready);
        }
        for _ in 0..std::mem::take(&mut self.owed_readys) {
            self.answer_recovered();
        }
        if self.peer_ready {
            self.enter_service(now);
        }
    }

    /// Completes the alignment of both ends: IN SERVICE, or PROCESSOR OUTAGE if one end has an outage.
    pub(super) fn enter_service(&mut self, now: Time) {
        self.alignment_timer = None;
        self.t7_from = now;
        self.enter_outage_or_service();
        self.indicate(LinkIndication::InService);
        if self.remote_outage {
            self.indicate(LinkIndication::RemoteProcessorOutage);
        }
        self.accept(now);
    }
}
