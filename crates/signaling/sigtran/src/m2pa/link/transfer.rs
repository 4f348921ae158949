//! Procedures of a link in service: User Data, processor outage, flow control and retrieval (RFC 4165, sections 4.1.4,
//! 4.1.5, 4.2.1 to 4.2.3).

use carrick_proto::Time;

use super::{
    Body, ExpectedReady, Link, LinkIndication, LinkRequestError, LinkState, LinkStatus,
    MAX_EXPECTED_READYS, Msu, OutOfServiceReason, Retrieval, SequenceNumber,
};

impl Link {
    /// Sends a message of MTP3 (Message for transmission). During a remote processor outage and while the peer is
    /// busy, it waits in the transmission buffer.
    ///
    /// # Errors
    /// [`LinkRequestError`] if the link is not in service or in processor outage, the transmit buffers are full or the
    /// message can't be encoded.
    pub fn send(&mut self, now: Time, msu: Msu) -> Result<(), LinkRequestError> {
        msu.check()?;
        if !self.is_aligned_at_both_ends() {
            return Err(LinkRequestError::NotInService);
        }
        if !self.transmit_buffers.push(msu) {
            return Err(LinkRequestError::BufferFull);
        }
        self.transmit(now);
        Ok(())
    }

    /// Begins a local processor outage: received messages wait, unacknowledged (section 4.1.4).
    pub fn local_processor_outage(&mut self) {
        if self.local_outage {
            return;
        }
        self.local_outage = true;
        match self.state {
            LinkState::AlignedReady => self.state = LinkState::AlignedNotReady,
            LinkState::InService | LinkState::ProcessorOutage => {
                self.state = LinkState::ProcessorOutage;
            }
            _ => return,
        }
        self.send_in_sequence(Body::LinkStatus(LinkStatus::ProcessorOutage));
    }

    /// Ends the local processor outage. The messages that wait go to MTP3 (Continue), unless
    /// [`flush_buffers`](Self::flush_buffers) discarded them.
    pub fn local_processor_recovered(&mut self, now: Time) {
        if !self.local_outage {
            return;
        }
        self.local_outage = false;
        match self.state {
            LinkState::AlignedNotReady => self.state = LinkState::AlignedReady,
            LinkState::ProcessorOutage => self.enter_outage_or_service(),
            _ => return,
        }
        self.accept(now);
        self.receive_buffer.discard();
        self.send_in_sequence(Body::LinkStatus(LinkStatus::ProcessorRecovered));
        self.expect_ready(ExpectedReady::ToRecovered);
    }

    /// Discards the received messages that wait, and the messages in the transmission and the retransmission buffer
    /// (Flush, section 4.1.4).
    pub fn flush_buffers(&mut self) {
        self.receive_buffer.discard();
        self.transmit_buffers.flush();
        self.report_congestion();
    }

    /// Begins receive congestion: received messages wait, unacknowledged (section 4.1.5).
    pub fn local_busy(&mut self) {
        if self.is_aligned_at_both_ends() && !self.local_busy {
            self.local_busy = true;
            self.send_on_link_status_stream(LinkStatus::Busy);
        }
    }

    /// Ends receive congestion: the messages that wait go to MTP3.
    pub fn local_busy_ended(&mut self, now: Time) {
        if self.local_busy {
            self.local_busy = false;
            self.send_on_link_status_stream(LinkStatus::BusyEnded);
            self.accept(now);
        }
    }

    /// Returns the BSN of the last message that was accepted, for the changeover message (Retrieve BSNT, section
    /// 4.2.3).
    pub const fn retrieve_bsnt(&self) -> SequenceNumber {
        self.receive_buffer.accepted
    }

    /// Removes messages from the transmit buffers for other links, in order (Retrieval Request and FSNC, section
    /// 4.2.3). The rest of the buffers is discarded.
    ///
    /// # Errors
    /// [`LinkRequestError::NotOutOfService`] if the peer could still receive the messages on this link.
    pub fn retrieve(&mut self, retrieval: Retrieval) -> Result<Vec<Msu>, LinkRequestError> {
        if self.state != LinkState::OutOfService {
            return Err(LinkRequestError::NotOutOfService);
        }
        Ok(self.transmit_buffers.retrieve(retrieval))
    }

    /// Handles User Data (section 4.2.1):
    /// 1. It is discarded before the alignment, and if the FSN is out of order.
    /// 2. At the end of the alignment it is in place of the peer's Ready (section 4.1.3).
    /// 3. Between Processor Recovered and Ready it was sent before the outage ended, and is discarded (section 4.1.4).
    /// 4. The BSN acknowledges messages.
    /// 5. The message waits, or goes to MTP3 and is acknowledged.
    pub(super) fn handle_user_data(
        &mut self,
        now: Time,
        bsn: SequenceNumber,
        fsn: SequenceNumber,
        msu: Option<Msu>,
    ) {
        // 1.
        let early = matches!(
            self.state,
            LinkState::OutOfService | LinkState::NotAligned | LinkState::Aligned
        );
        if early || !self.receive_buffer.expects(fsn, msu.as_ref()) {
            return;
        }
        // 2.
        match self.state {
            LinkState::Proving => self.peer_ready = true,
            LinkState::AlignedReady | LinkState::AlignedNotReady => self.enter_service(now),
            _ => {}
        }
        // 3.
        if self.is_recovering() {
            return;
        }
        // 4.
        let valid = self.transmit_buffers.acknowledge(bsn);
        self.abnormal_bsns = (self.abnormal_bsns << 1 | u8::from(!valid)) & 0b111;
        if self.abnormal_bsns.count_ones() > 1 {
            self.fail(OutOfServiceReason::AbnormalBsn);
            return;
        }
        self.report_congestion();
        // 5.
        let Some(msu) = msu else { return };
        if !self.receive_buffer.push(msu) {
            self.fail(OutOfServiceReason::ReceiveBufferFull);
            return;
        }
        self.accept(now);
    }

    pub(super) fn handle_processor_outage(&mut self, now: Time) {
        match self.state {
            LinkState::Proving => {
                self.peer_ready = true;
                self.remote_outage = true;
            }
            LinkState::AlignedReady | LinkState::AlignedNotReady => {
                self.remote_outage = true;
                self.enter_service(now);
            }
            LinkState::InService | LinkState::ProcessorOutage if !self.remote_outage => {
                self.remote_outage = true;
                self.state = LinkState::ProcessorOutage;
                self.indicate(LinkIndication::RemoteProcessorOutage);
            }
            _ => {}
        }
    }

    /// Handles Processor Recovered (section 4.1.4):
    /// 1. Messages that the peer has discarded are sent again, with the numbers after its BSN.
    /// 2. Messages that were not accepted are discarded, so that the peer sends them again after the Ready.
    /// 3. A Ready answers.
    pub(super) fn handle_processor_recovered(&mut self, now: Time, bsn: SequenceNumber) {
        if !self.remote_outage {
            return;
        }
        self.remote_outage = false;
        if !self.is_aligned_at_both_ends() {
            self.owed_readys += 1;
            if self.owed_readys > MAX_EXPECTED_READYS {
                self.fail(OutOfServiceReason::ReadyMissing);
            }
            return;
        }
        if !self.resynchronize(now, bsn) {
            return;
        }
        self.receive_buffer.discard();
        self.enter_outage_or_service();
        self.indicate(LinkIndication::RemoteProcessorOutageCeases);
        self.answer_recovered();
        self.transmit(now);
    }

    /// Sends the Ready that answers Processor Recovered; the peer answers it with another one.
    pub(super) fn answer_recovered(&mut self) {
        self.send_in_sequence(Body::LinkStatus(LinkStatus::Ready));
        self.expect_ready(ExpectedReady::ToReady);
    }

    fn expect_ready(&mut self, ready: ExpectedReady) {
        self.expected_readys.push_back(ready);
        if self.expected_readys.len() > MAX_EXPECTED_READYS {
            self.fail(OutOfServiceReason::ReadyMissing);
        }
    }

    /// Returns whether a Processor Recovered was not answered: User Data is not sent until it is.
    fn is_recovering(&self) -> bool {
        self.expected_readys.contains(&ExpectedReady::ToRecovered)
    }

    /// Handles the Ready that answers Processor Recovered: a Ready answers it, then User Data resumes.
    pub(super) fn complete_recovery(&mut self, now: Time, bsn: SequenceNumber) {
        // If another outage ended since, the Ready that answers its Processor Recovered has the numbers that apply.
        if !self.is_recovering() && !self.resynchronize(now, bsn) {
            return;
        }
        self.send_in_sequence(Body::LinkStatus(LinkStatus::Ready));
        self.transmit(now);
    }

    /// Handles Busy: T6 begins if messages are unacknowledged, T7 ends (section 4.1.5). It can overtake the Processor
    /// Outage that ends the alignment.
    pub(super) fn handle_busy(&mut self, now: Time) {
        if self.state >= LinkState::AlignedReady && !self.remote_busy {
            self.remote_busy = true;
            let unacknowledged = self.transmit_buffers.oldest_sent_at().is_some();
            self.t6 = unacknowledged.then(|| now + self.config.t6);
        }
    }

    pub(super) fn handle_busy_ended(&mut self, now: Time) {
        if self.remote_busy {
            self.remote_busy = false;
            self.t6 = None;
            self.t7_from = now;
            self.transmit(now);
        }
    }

    /// Returns the expiry of T7: a message was unacknowledged for that long. The peer does not acknowledge while it is
    /// busy or in processor outage.
    pub(super) fn t7(&self) -> Option<Time> {
        if !self.is_aligned_at_both_ends() || self.remote_busy || self.remote_outage {
            return None;
        }
        let sent_at = self.transmit_buffers.oldest_sent_at()?;
        Some(sent_at.max(self.t7_from) + self.config.t7)
    }

    /// Gives the received messages to MTP3, unless a local outage or congestion forbids it, and acknowledges them.
    pub(super) fn accept(&mut self, now: Time) {
        if !self.is_aligned_at_both_ends() || self.local_outage || self.local_busy {
            return;
        }
        let messages = self.receive_buffer.accept();
        self.acknowledgement_due |= !messages.is_empty();
        let indications = messages.into_iter().map(LinkIndication::Received);
        self.indications.extend(indications);
        self.transmit(now);
    }

    pub(super) const fn enter_outage_or_service(&mut self) {
        self.state = if self.local_outage || self.remote_outage {
            LinkState::ProcessorOutage
        } else {
            LinkState::InService
        };
    }

    /// Sends the messages that wait for transmission, and an acknowledgement if none of them carries it.
    fn transmit(&mut self, now: Time) {
        if self.is_aligned_at_both_ends() && !self.is_recovering() {
            if !self.remote_outage && !self.remote_busy {
                while let Some(msu) = self.transmit_buffers.send(now) {
                    self.send_in_sequence(Body::UserData(Some(msu)));
                    self.acknowledgement_due = false;
                }
            }
            if std::mem::take(&mut self.acknowledgement_due) {
                self.send_in_sequence(Body::UserData(None));
            }
        }
        self.report_congestion();
    }

    /// Resynchronizes the sequence numbers with the peer's BSN; an invalid one ends the link.
    fn resynchronize(&mut self, now: Time, bsn: SequenceNumber) -> bool {
        let valid = self.transmit_buffers.resynchronize(bsn);
        if valid {
            self.t7_from = now;
            self.report_congestion();
        } else {
            self.fail(OutOfServiceReason::AbnormalBsn);
        }
        valid
    }

    /// Indicates the onset and the abatement of transmit congestion (section 4.2.2).
    fn report_congestion(&mut self) {
        let messages = self.transmit_buffers.len();
        if !self.congested && messages >= self.config.congestion_onset {
            self.congested = true;
            self.indicate(LinkIndication::CongestionOnset);
        } else if self.congested && messages <= self.config.congestion_abatement {
            self.congested = false;
            self.indicate(LinkIndication::CongestionAbatement);
        }
    }
}
