//! Sent datagrams: those of the sessions themselves, and those with packets of the endpoint.

use alloc::vec::Vec;

use super::progress::QUOTED;
use super::{PacketSession, SessionFactory, SessionId, SessionLayer, single};
use crate::endpoint::Endpoint;
use crate::route::Route;
use crate::time::Time;
use crate::transmit::Transmit;

impl<F: SessionFactory> SessionLayer<F> {
    /// Appends the next datagrams to `buf` and returns their route and sizes; `None` if there is nothing to
    /// send at `now`.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            if let Some((transmit, datagram)) = self.odd_sized.pop_front() {
                buf.extend_from_slice(&datagram);
                return Some(transmit);
            }
            while let Some(&id) = self.ready.first() {
                let own = self.poll_own(now, id, buf);
                if own.is_some() {
                    return own;
                }
                self.ready.remove(&id);
                self.update_session(now, endpoint, id);
                if self.slots.get(&id).is_some_and(|slot| slot.ended) {
                    self.remove(id);
                }
            }
            self.plain.clear();
            let Some(transmit) = endpoint.poll_transmit(now, &mut self.plain) else {
                // Handshakes of unknown peers come after the packets of sessions.
                if self.process_hello(now, endpoint) {
                    continue;
                }
                return None;
            };
            let sealed = self.seal(now, &transmit, buf);
            if sealed.is_some() {
                return sealed;
            }
        }
    }

    /// Appends the next datagram of a session itself.
    fn poll_own(&mut self, now: Time, id: SessionId, buf: &mut Vec<u8>) -> Option<Transmit> {
        let slot = self.slots.get_mut(&id)?;
        let start = buf.len();
        let mut any = slot.session.poll_datagram(now, buf);
        if let Some(sent) = slot.unanswered.as_mut().filter(|_| any) {
            sent.clear();
            sent.extend(buf[start..].iter().take(QUOTED));
        }
        if let Some(successor) = slot.successor.as_mut().filter(|_| !any) {
            any = successor.poll_datagram(now, buf);
        }
        any.then(|| single(slot.route, buf.len() - start))
    }

    /// Protects packets of the endpoint.
    fn seal(&mut self, now: Time, transmit: &Transmit, buf: &mut Vec<u8>) -> Option<Transmit> {
        let id = SessionId::of(transmit.route.remote);
        let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.is_open()) else {
            self.stats.held_back += transmit.packets() as u64;
            return None;
        };
        let route = Route {
            ecn: transmit.route.ecn,
            ..slot.route
        };
        let start = buf.len();
        let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
        let mut full = None;
        let mut last = 0;
        for packet in self.plain.chunks(size) {
            let before = buf.len();
            if !slot.session.protect(now, packet, buf) {
                self.stats.held_back += 1;
                continue;
            }
            let len = buf.len() - before;
            let first = *full.get_or_insert(len);
            if len > first || (before > start && last < first) {
                // All but the last have one size; a datagram of another size is sent alone.
                let alone = Transmit {
                    dscp: transmit.dscp,
                    ..single(route, len)
                };
                self.odd_sized.push_back((alone, buf.split_off(before)));
            } else {
                last = len;
            }
        }
        let len = buf.len() - start;
        (len > 0).then(|| Transmit {
            route,
            len,
            segment_size: full.filter(|size| *size < len),
            ..*transmit
        })
    }
}
