//! Operations of the endpoints' users.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationId, Endpoint, IcmpInput, IcmpKind, PathId, PathThresholds, PeerAddress, Reliability,
    SendOptions, SharedKeyId, StreamDirection, StreamId, StreamScheduler, Time,
};

use crate::input::Input;
use crate::messages::{SentMessage, payload};
use crate::network::Network;
use crate::protection;
use crate::settings::{KEYS, key};

/// Maximum numbers of messages and associations that the users request: enough to fill all buffers.
const MAX_SENDS: usize = 2000;
const MAX_CONNECTS: usize = 40;

impl Network {
    pub fn connect(&mut self, end: usize, input: &mut Input<'_>) {
        self.connects += 1;
        if self.connects > MAX_CONNECTS {
            return;
        }
        let skip = input.below(self.addresses[1 - end].len());
        let peers = &self.addresses[1 - end][skip..];
        let ways = peers.iter().map(|&address| PeerAddress {
            address,
            encapsulation: self.port(1 - end, address),
        });
        let peers: Vec<PeerAddress> = ways.collect();
        let port = self.ends[1 - end].port();
        // Refused if an association with the peer exists.
        let config = self.settings.sides[end].clone();
        let _ = self.ends[end].associate(self.now, &peers, port, config);
    }

    /// Returns an association of the endpoint, if it has any.
    pub fn choose(&self, end: usize, input: &mut Input<'_>) -> Option<AssociationId> {
        let all: Vec<AssociationId> = self.ends[end].associations().collect();
        if all.len() < 2 {
            return all.first().copied();
        }
        Some(all[input.below(all.len())])
    }

    /// Sends a message, which may be abandoned if `partial`.
    pub fn send(&mut self, end: usize, partial: bool, input: &mut Input<'_>) {
        let what = input.byte();
        let size = match what & 3 {
            0 => usize::from(input.byte()) + 1,
            1 => 1400 + usize::from(input.byte()),
            2 => usize::from(input.half() & 0x3fff) + 1,
            _ => 1,
        };
        let how = if partial { input.byte() } else { 0 };
        let Some(id) = self.choose(end, input).filter(|_| self.sends < MAX_SENDS) else {
            return;
        };
        self.sends += 1;
        let (book, number, ppid) = self.messages[end].next_message(id);
        let stream = u16::from(what >> 2 & 3) + if how & 0x40 != 0 { 4 } else { 0 };
        let mut options = SendOptions::on_stream(stream);
        options.unordered = what & 0x10 != 0;
        options.immediate = what & 0x20 != 0;
        options.no_delay = what & 0x40 != 0;
        options.path = (what & 0x80 != 0).then_some(PathId(1));
        options.ppid = ppid;
        options.context = u64::from(ppid.0);
        let value = u32::from(how >> 2 & 15);
        options.reliability = match how & 3 {
            0 => Reliability::Full,
            1 => Reliability::Timed(Duration::from_millis(1 << value)),
            2 => Reliability::Retransmissions(value & 3),
            _ => Reliability::Priority(value),
        };
        options.lifetime = (how & 0x80 != 0).then(|| Duration::from_millis(1 << value));
        let partial = options.reliability != Reliability::Full || options.lifetime.is_some();
        let bytes = payload(book, number, size);
        let taken = self.ends[end].send(self.now, id, options, bytes.clone());
        if taken.is_ok() {
            let sent = SentMessage::new(stream, options.unordered, partial, bytes);
            self.messages[end].sent(book, sent);
        }
    }

    pub fn read(&mut self, end: usize, count: usize) {
        let ids: Vec<AssociationId> = self.ends[end].associations().collect();
        for id in ids {
            for _ in 0..count {
                let Some(message) = self.ends[end].receive(id) else {
                    break;
                };
                if !self.tampered {
                    self.messages[1 - end].received(id, message);
                }
            }
        }
    }

    pub fn read_all(&mut self) {
        self.read(0, usize::MAX);
        self.read(1, usize::MAX);
    }

    pub fn operate(
        &mut self,
        end: usize,
        input: &mut Input<'_>,
        operation: impl FnOnce(&mut Endpoint, Time, AssociationId, &mut Input<'_>),
    ) {
        if let Some(id) = self.choose(end, input) {
            operation(&mut self.ends[end], self.now, id, input);
        }
    }

    pub fn abort(&mut self, end: usize, input: &mut Input<'_>) {
        self.ended_silently = true;
        self.operate(end, input, |e, now, id, input| {
            let reason = vec![b'r'; input.below(3000)];
            let _ = e.abort(now, id, &reason);
        });
    }

    pub fn path_operation(&mut self, end: usize, input: &mut Input<'_>) {
        self.operate(end, input, |e, now, id, input| {
            let path = PathId(input.byte() & 3);
            let _ = e
                .association_mut(now, id)
                .map(|mut e| match input.byte() & 7 {
                    0 | 1 => e.set_primary(path),
                    2 | 3 => e.request_heartbeat(path),
                    4 => e.set_heartbeat(path, false),
                    5 => e.set_heartbeat(path, true),
                    6 => e.set_failure_threshold(path, u32::from(input.byte() & 7)),
                    _ => e.set_path_mtu(path, usize::from(input.half())),
                });
        });
    }

    /// Reports an ICMP message about a packet in flight, or about no packet.
    pub fn icmp(&mut self, end: usize, input: &mut Input<'_>) {
        let kind = match input.byte() & 7 {
            0 => {
                self.ended_silently = true;
                IcmpKind::ProtocolUnreachable
            }
            1 => IcmpKind::PortUnreachable,
            2 | 3 => IcmpKind::DestinationUnreachable,
            _ => IcmpKind::PacketTooBig {
                mtu: usize::from(input.half()),
            },
        };
        let about = self.in_flight.iter().rev().find(|f| f.to != end);
        let (remote, encapsulation, quoted) = match about {
            Some(flight) => (flight.route.local, flight.port, flight.bytes.clone()),
            None => (None, None, Bytes::copy_from_slice(input.bytes(28))),
        };
        let icmp = IcmpInput {
            kind,
            remote: remote.unwrap_or(self.addresses[1 - end][0]),
            encapsulation,
            quoted: &quoted[..quoted.len().min(28)],
        };
        self.ends[end].handle_icmp(self.now, &icmp);
    }

    /// Removes or adds a local address. The first one is removed only if all peers can be notified.
    pub fn local_address(&mut self, end: usize, any: bool, input: &mut Input<'_>) {
        let first = usize::from(!any || !self.peers_can_be_notified(end));
        let which = first + input.below(self.addresses[end].len() - first);
        let address = self.addresses[end][which];
        if self.ends[end].local_addresses().contains(&address) {
            self.ends[end].local_address_removed(self.now, address);
        } else {
            self.ends[end].local_address_added(address);
        }
    }

    /// Returns whether dynamic addresses are in force in all associations, and another address remains.
    fn peers_can_be_notified(&self, end: usize) -> bool {
        let end = &self.ends[end];
        let mut all = end
            .associations()
            .filter_map(|id| end.association(id).map(|a| a.stats()));
        end.local_addresses().len() > 1 && all.all(|stats| stats.extensions.dynamic_addresses)
    }

    /// Resets or adds streams.
    pub fn reconfigure(&mut self, end: usize, input: &mut Input<'_>) {
        self.operate(end, input, |e, now, id, input| {
            let what = input.byte();
            let direction = [
                StreamDirection::Outgoing,
                StreamDirection::Incoming,
                StreamDirection::Both,
            ][usize::from(what >> 2 & 3) % 3];
            let count = usize::from(what >> 4 & 3);
            let streams = [0, 1, 2].map(|n| StreamId(n * u16::from(what >> 6)));
            // A request that is not possible now is refused.
            let _ = e.association_mut(now, id).map(|mut e| match what & 3 {
                0 => e.add_streams(u16::from(what >> 2 & 3), u16::from(what >> 4 & 3)),
                1 => e.reset_association(),
                _ => e.reset_streams(direction, &streams[..count]),
            });
        });
    }

    /// Adds, removes or changes keys.
    pub fn keys(&mut self, end: usize, input: &mut Input<'_>) {
        self.operate(end, input, |e, now, id, input| {
            let what = input.byte();
            if what & 0x80 != 0 {
                return protection::change(e, id, what);
            }
            let number = u16::from(what >> 2) % KEYS;
            let name = SharedKeyId(number);
            // A key in use can't be removed, a missing one can't be used.
            let _ = e.association_mut(now, id).map(|mut e| match what & 3 {
                0 => e.add_key(key(number)),
                1 => e.activate_key(name),
                2 => e.deactivate_key(name),
                _ => e.delete_key(name),
            });
        });
    }

    /// Requests the peer to send to an address of this side.
    pub fn ask_for_address(&mut self, end: usize, input: &mut Input<'_>) {
        let address = self.addresses[end][input.below(self.addresses[end].len())];
        self.operate(end, input, |e, now, id, _| {
            let _ = e
                .association_mut(now, id)
                .map(|mut e| e.set_peer_primary(address));
        });
    }

    /// Changes the stream scheduler or the error thresholds of paths.
    pub fn adjust(&mut self, end: usize, input: &mut Input<'_>) {
        self.operate(end, input, |e, now, id, input| {
            let (what, value) = (input.byte(), input.byte());
            let Some(mut e) = e.association_mut(now, id) else {
                return;
            };
            match what & 3 {
                0 => {
                    let all = StreamScheduler::ALL;
                    e.set_scheduler(all[usize::from(value) % all.len()]);
                }
                1 => {
                    let stream = StreamId(u16::from(what >> 2 & 7));
                    let _ = e.set_stream_value(stream, u16::from(value));
                }
                2 => e.set_expose_potentially_failed(value & 1 != 0),
                _ => {
                    let path = (what & 4 != 0).then_some(PathId(what >> 3 & 3));
                    let thresholds = PathThresholds {
                        path_max_retrans: u32::from(value & 7),
                        potentially_failed_max_retrans: (value & 8 != 0)
                            .then_some(u32::from(value >> 4 & 3)),
                        primary_switchover_max_retrans: (value & 0x40 != 0).then_some(7),
                    };
                    let _ = e.set_path_thresholds(path, thresholds);
                }
            }
        });
    }

    /// Gives both users all keys again.
    pub fn agree_on_keys(&mut self) {
        for end in &mut self.ends {
            let ids: Vec<AssociationId> = end.associations().collect();
            for id in ids {
                protection::agree(end, id);
                let mut association = end.association_mut(self.now, id);
                for number in 0..KEYS {
                    // Without authentication there is nothing to agree on.
                    let _ = association.as_mut().map(|a| a.add_key(key(number)));
                }
            }
        }
    }
}
