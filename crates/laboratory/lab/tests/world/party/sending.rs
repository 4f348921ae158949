//! Sets up the association and sends messages.

use std::net::{IpAddr, SocketAddr};

use carrick_proto::{
    Endpoint, PathId, PeerAddress, Ppid, Reliability, SendError, SendOptions, StreamId, Time,
};

use super::{Current, Party, Setting};
use crate::world::content;
use crate::world::ledger::Record;
use crate::world::script::Planned;

impl Party {
    pub(super) fn connect(&mut self, now: Time, endpoint: &mut Endpoint) {
        if self.current.is_some() {
            // The peer was faster, and may even be done.
            return;
        }
        let Setting {
            peer_port,
            peer_encapsulation,
            plain,
            ref config,
            ..
        } = self.setting;
        // The removed address may have been the last of its IP version.
        let local = endpoint.local_addresses();
        let mut peers = self.script.peers.clone();
        if self.sessions.is_none() {
            peers.retain(|peer| local.iter().any(|a| a.is_ipv4() == peer.is_ipv4()));
        }
        let way = |(place, &address): (usize, &IpAddr)| PeerAddress {
            address,
            encapsulation: peer_encapsulation.filter(|_| plain >> (place % 8) & 1 == 0),
        };
        let peers: Vec<PeerAddress> = peers.iter().enumerate().map(way).collect();
        let result = match &self.sessions {
            None => endpoint
                .associate(now, &peers, peer_port, config.clone())
                .map_err(|error| error.to_string()),
            Some(sessions) => {
                let udp = peer_encapsulation.expect("sessions are in UDP");
                let remote = SocketAddr::new(peers[0].address, udp);
                let peer = 1 - self.setting.side as u8;
                let mut sessions = sessions.borrow_mut();
                sessions
                    .connect(now, endpoint, (remote, peer_port), peer, config.clone())
                    .map_err(|error| error.to_string())
            }
        };
        self.log(now, || format!("connect {peers:?}: {result:?}"));
        match result {
            Ok(id) => {
                self.current = Some(Current {
                    id,
                    established: false,
                    closed: false,
                    streams: config.streams.outbound_streams,
                    start: now,
                });
            }
            Err(error) => self.fail(format!("connect: {error}")),
        }
    }

    pub(super) fn send_due(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(current) = self.sendable() {
            let Some(planned) = self.messages().get(self.cursor).copied() else {
                break;
            };
            if current.start + planned.at > now {
                break;
            }
            self.send(now, endpoint, current, planned);
        }
        let done = self.cursor >= self.messages().len();
        self.sent_all |= done && self.current.is_some();
    }

    pub(super) fn send(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        current: Current,
        planned: Planned,
    ) {
        let Setting { seed, side, .. } = self.setting;
        let number = self.waiting.take().unwrap_or_else(|| {
            let record = Record {
                stream: 0,
                unordered: planned.unordered,
                size: planned.size,
                may_expire: planned.lifetime.is_some(),
                partial: planned.reliability != Reliability::Full,
                early: !current.established,
                life: self.life,
                accepted: None,
                delivered: false,
                begun: false,
                in_late_association: false,
                early_receiver: None,
                failed: false,
                expired: false,
                abandoned: false,
                unsent: false,
            };
            self.ledger.borrow_mut().open(side, record)
        });
        // The set-up may have reduced the number since.
        let known = endpoint.association(current.id).map(|a| a.stats());
        let streams = known.map_or(current.streams, |stats| stats.outbound_streams);
        let stream = planned.stream % streams.max(1);
        self.ledger.borrow_mut().messages[side][number].stream = stream;
        let paths = endpoint
            .association(current.id)
            .into_iter()
            .flat_map(|a| a.paths());
        let paths: Vec<PathId> = paths.map(|path| path.id).collect();
        let options = SendOptions {
            stream: StreamId(stream),
            ppid: Ppid(content::ppid(side, number)),
            unordered: planned.unordered,
            immediate: planned.immediate,
            no_delay: planned.no_delay,
            lifetime: planned.lifetime,
            reliability: planned.reliability,
            path: planned
                .path
                .and_then(|path| paths.get(usize::from(path) % paths.len().max(1)).copied()),
            context: number as u64,
        };
        let data = content::bytes(seed, side, number, planned.size);
        let result = endpoint.send(now, current.id, options, data);
        self.log(now, || {
            format!(
                "send {number}: stream {stream}, {} bytes: {result:?}",
                planned.size
            )
        });
        match result {
            Ok(()) => self.ledger.borrow_mut().accepted(side, number, now),
            Err(SendError::BufferFull) => {
                self.ledger.borrow_mut().seen.refused_full += 1;
                self.waiting = Some(number);
                self.blocked = true;
                return;
            }
            Err(SendError::TooLarge { limit }) if !self.setting.config.mtu.fragment => {
                if planned.size <= limit {
                    self.fail(format!("{} bytes refused, {limit} allowed", planned.size));
                }
            }
            Err(SendError::ShuttingDown | SendError::UnknownAssociation) => {}
            Err(error) => self.fail(format!("send {number}: {error}")),
        }
        self.cursor += 1;
    }
}
