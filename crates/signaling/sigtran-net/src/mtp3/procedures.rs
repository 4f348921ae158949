//! Changeover and changeback (Q.704, sections 5 and 6; RFC 4165, section 4.2.3).
//!
//! ```text
//! link fails: hold its SLSs ── XCO over another link ──> peer
//!                           <── XCA ─────────────────────
//!             retrieve what the peer has not accepted, send it and what was held on other links
//!
//! link returns: hold SLSs on the alternative link ── CBD over it, behind their messages ──> peer
//!                                               <── CBA ──────────────────────────────────
//!               send what was held on the link
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carrick_proto::Time;
use carrick_sigtran::m2pa::link::{LinkState, Retrieval};
use carrick_sigtran::m2pa::{Msu, SequenceNumber};

use super::label::{LinkMessage, NETWORK_MANAGEMENT};
use super::link_set::{Changeback, LinkSet, LinkSetIndication, Wait};

impl LinkSet {
    /// Returns the link of an SLS: its own if that is available, otherwise another one.
    fn preferred(&self, sls: usize) -> Option<usize> {
        // Bits are exchanged, so that the choice does not depend on bits that chose the link set.
        let nibble = |bits: usize| (bits & 0x0f).reverse_bits() >> (usize::BITS - 4);
        let spread = nibble(sls) ^ nibble(sls >> 4);
        let own = spread % self.links.len();
        if self.links[own].is_available {
            return Some(own);
        }
        let links = self.links.iter().enumerate();
        let available = links.filter(|(_, link)| link.is_available);
        let available: Vec<_> = available.map(|(index, _)| index).collect();
        let index = (spread / self.links.len()).checked_rem(available.len())?;
        available.get(index).copied()
    }

    fn alternative(&self) -> Option<usize> {
        self.links.iter().position(|link| link.is_available)
    }

    /// A link is available: the first one carries all SLSs, another one gets those that prefer it.
    pub(super) fn on_in_service(&mut self, now: Time, link: usize) {
        let is_first = !self.is_available();
        self.links[link].is_available = true;
        self.indicate(LinkSetIndication::Link(link, true));
        if is_first {
            for flow in self.flows.iter_mut().filter(|flow| flow.held.is_none()) {
                flow.link = Some(link);
            }
        } else {
            self.begin_changebacks(now);
        }
    }

    /// Begins the return of SLSs to the links that they prefer: they are held, and each link that they leave gets a
    /// Changeback Declaration behind their messages.
    fn begin_changebacks(&mut self, now: Time) {
        let mut moves: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (sls, flow) in self.flows.iter().enumerate() {
            let from = flow.link.filter(|_| flow.held.is_none());
            if let (Some(from), Some(to)) = (from, self.preferred(sls))
                && from != to
            {
                moves.entry((from, to)).or_default().push(sls);
            }
        }
        for ((from, to), flows) in moves {
            for sls in &flows {
                self.flows[*sls].held = Some(VecDeque::new());
            }
            self.last_code = self.last_code.wrapping_add(1);
            let wait = Wait {
                until: now + self.config.t4,
                is_last: false,
            };
            let code = self.last_code;
            self.changebacks.push(Changeback {
                code,
                from,
                to,
                flows,
                wait,
            });
            let declaration = LinkMessage::ChangebackDeclaration(to as u8, code);
            self.send_link_message(now, from, &declaration);
        }
    }

    /// A link has failed, or could not be aligned:
    /// 1. It is aligned again after T17, or after the changeover.
    /// 2. Changebacks to it end; those from it become a part of the changeover.
    /// 3. Its SLSs are held.
    /// 4. A Changeover Order leaves over another link, also for changeovers whose order this link may have lost.
    ///    Without another link, messages that were not sent are returned.
    pub(super) fn on_out_of_service(&mut self, now: Time, link: usize) {
        // 1.
        if !std::mem::replace(&mut self.links[link].is_available, false) {
            if self.links[link].changeover.is_none() {
                self.links[link].restart = Some(now + self.config.t17);
            }
            return;
        }
        self.links[link].accepted = self.links[link].link.retrieve_bsnt();
        self.on_congestion(link, false);
        self.indicate(LinkSetIndication::Link(link, false));
        // 2.
        let ended = self
            .changebacks
            .extract_if(.., |b| b.from == link || b.to == link);
        let ended: Vec<_> = ended.collect();
        for back in ended.iter().filter(|back| back.to == link) {
            for sls in &back.flows {
                self.release(now, *sls, back.from);
            }
        }
        // 3.
        let flows = self.flows.iter_mut();
        for flow in flows.filter(|flow| flow.link == Some(link)) {
            flow.held.get_or_insert_default();
        }
        // 4.
        self.links[link].changeover = Some(Wait {
            until: now,
            is_last: false,
        });
        for index in 0..self.links.len() {
            if self.links[index].changeover.is_some() {
                self.order_changeover(now, index, false);
            }
        }
    }

    /// Sends a Changeover Order, or ends the changeover without the peer if there is no link for it.
    fn order_changeover(&mut self, now: Time, link: usize, is_last: bool) {
        let Some(via) = self.alternative() else {
            self.finish_changeover(now, link, Retrieval::Unsent);
            return;
        };
        self.links[link].changeover = Some(Wait {
            until: now + self.config.t2,
            is_last,
        });
        let order = LinkMessage::ChangeoverOrder(link as u8, self.links[link].accepted);
        self.send_link_message(now, via, &order);
    }

    /// Changeover Order of the peer: the link is out of service at this end, too. Its FSN is also the answer to this
    /// end's own order.
    pub(super) fn on_order(&mut self, now: Time, via: usize, slc: u8, fsn: SequenceNumber) {
        let index = usize::from(slc);
        if index >= self.links.len() || index == via {
            return;
        }
        if self.links[index].is_available {
            self.links[index].link.stop();
            // The indication of the stop follows: what it would do is done here.
            self.on_out_of_service(now, index);
        }
        let ack = LinkMessage::ChangeoverAck(slc, self.links[index].accepted);
        self.send_link_message(now, via, &ack);
        self.on_changeover_ack(now, slc, fsn);
    }

    pub(super) fn on_changeover_ack(&mut self, now: Time, slc: u8, fsn: SequenceNumber) {
        let link = self.links.get(usize::from(slc));
        if link.is_some_and(|link| link.changeover.is_some()) {
            self.finish_changeover(now, usize::from(slc), Retrieval::After(fsn));
        }
    }

    /// Ends a changeover:
    /// 1. Messages are retrieved and precede those that were held. Messages about links are not sent again.
    /// 2. The SLSs of the link change to other links, or their messages are returned.
    /// 3. The link is aligned again after T17.
    fn finish_changeover(&mut self, now: Time, link: usize, retrieval: Retrieval) {
        self.links[link].changeover = None;
        // 1.
        let format = self.config.format;
        let retrieved = match self.links[link].link.state() {
            LinkState::OutOfService => self.links[link].link.retrieve(retrieval),
            _ => Ok(Vec::new()),
        };
        let retrieved = retrieved.unwrap_or_default();
        let mut diverted = BTreeSet::new();
        for msu in retrieved.into_iter().rev() {
            let is_management = msu.sio & 0x0f == NETWORK_MANAGEMENT;
            match format.decode(&msu) {
                Some(data) if !is_management || data.dpc != self.config.adjacent => {
                    let sls = usize::from(data.sls);
                    let flow = &mut self.flows[sls];
                    if flow.held.is_none() {
                        // The SLS has another link already: its changeback was not acknowledged.
                        diverted.insert(sls);
                    }
                    flow.held.get_or_insert_default().push_front(msu);
                }
                _ => {}
            }
        }
        // 2.
        for sls in 0..self.flows.len() {
            if self.flows[sls].link == Some(link) || diverted.contains(&sls) {
                match self.preferred(sls) {
                    Some(next) => self.release(now, sls, next),
                    None => self.return_held(sls),
                }
            }
        }
        // 3.
        self.links[link].restart = Some(now + self.config.t17);
        self.begin_changebacks(now);
    }

    /// Sends the messages of an SLS that were held, on this link.
    fn release(&mut self, now: Time, sls: usize, link: usize) {
        let flow = &mut self.flows[sls];
        flow.link = Some(link);
        let held = flow.held.take().into_iter().flatten();
        let link = &mut self.links[link].link;
        let failed = held.filter_map(|msu| link.send(now, msu).err()).count();
        self.count_lost(failed as u64);
    }

    /// Returns the messages of an SLS that were held, because no link is available.
    fn return_held(&mut self, sls: usize) {
        let flow = &mut self.flows[sls];
        flow.link = None;
        let held: Vec<Msu> = flow.held.take().into_iter().flatten().collect();
        for msu in held {
            if let Some(data) = self.config.format.decode(&msu) {
                self.indicate(LinkSetIndication::Returned(data));
            }
        }
    }

    pub(super) fn on_changeback_ack(&mut self, now: Time, code: u8) {
        let mut backs = self.changebacks.iter();
        if let Some(index) = backs.position(|back| back.code == code) {
            self.finish_changeback(now, index);
        }
    }

    fn finish_changeback(&mut self, now: Time, index: usize) {
        let back = self.changebacks.swap_remove(index);
        for sls in back.flows {
            self.release(now, sls, back.to);
        }
        // Another link may have returned meanwhile.
        self.begin_changebacks(now);
    }

    /// Sends orders and declarations without an answer once more; then the procedure ends without it.
    pub(super) fn expire_procedures(&mut self, now: Time) {
        for link in 0..self.links.len() {
            match self.links[link].changeover {
                Some(wait) if wait.until <= now && wait.is_last => {
                    self.finish_changeover(now, link, Retrieval::Unsent);
                }
                Some(wait) if wait.until <= now => self.order_changeover(now, link, true),
                _ => {}
            }
        }
        let mut index = 0;
        while let Some(back) = self.changebacks.get_mut(index) {
            if back.wait.until > now {
                index += 1;
            } else if back.wait.is_last {
                self.finish_changeback(now, index);
            } else {
                back.wait = Wait {
                    until: now + self.config.t4,
                    is_last: true,
                };
                let (from, to, code) = (back.from, back.to, back.code);
                let declaration = LinkMessage::ChangebackDeclaration(to as u8, code);
                self.send_link_message(now, from, &declaration);
                index += 1;
            }
        }
    }
}
