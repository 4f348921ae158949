//! What ICMP messages may do (RFC 9260 section 10, RFC 6951 section 5.5).

use core::net::IpAddr;

use carrick_wire::{ChunkType, VerificationTag};

use super::Endpoint;
use crate::association::Association;
use crate::path::Path;
use crate::route::Transmit;
use crate::time::Time;

/// What an ICMP message says, as far as SCTP is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// "Fragmentation Needed" or "Packet Too Big", with the next hop's MTU in bytes.
    PacketTooBig {
        /// IP MTU in bytes.
        mtu: usize,
    },
    /// "Protocol Unreachable", or "Unrecognized Next Header Type Encountered".
    ProtocolUnreachable,
    /// "Port Unreachable": ignored on plain IP, like "Protocol Unreachable" behind UDP.
    PortUnreachable,
    /// Any other "Destination Unreachable".
    DestinationUnreachable,
}

/// An ICMP message that the driver received.
#[derive(Clone, Copy, Debug)]
pub struct IcmpInput<'a> {
    /// What it says.
    pub kind: IcmpKind,
    /// Where the packet it complains about was sent to.
    pub remote: IpAddr,
    /// The UDP port to which it was sent; `None` if it was on plain IP.
    pub encapsulation: Option<u16>,
    /// The beginning of that SCTP packet: at least the 8 bytes up to the verification tag.
    pub quoted: &'a [u8],
}

impl Endpoint {
    /// The host refused to send a probe ([`Transmit::probe`]) because it is larger than what its
    /// interface takes. `packet` is what [`Self::poll_transmit`] wrote.
    pub fn handle_refused_probe(&mut self, now: Time, transmit: &Transmit, packet: &[u8]) {
        let Some(&[_, _, high, low, t0, t1, t2, t3]) = packet.first_chunk() else {
            return;
        };
        let port = u16::from_be_bytes([high, low]);
        let tag = VerificationTag(u32::from_be_bytes([t0, t1, t2, t3]));
        let route = &transmit.route;
        let (remote, way) = (route.remote, route.encapsulation);
        let has_tag = |association: &Association| association.peer_tag == tag;
        let known = self.registry.find_sender(remote, port, way, has_tag);
        let Some(id) = known else {
            return;
        };
        self.with(now, id, |association, _| {
            // Another path to the same address, which leaves this host elsewhere, may take the size.
            if let Some(path) = association.paths.find_exactly(route) {
                association.on_probe_refused(path, packet.len(), now);
            }
        });
    }

    /// Takes an ICMP message. One that can't be proved to concern an association of this endpoint
    /// is ignored and counted.
    pub fn handle_icmp(&mut self, now: Time, icmp: &IcmpInput<'_>) {
        if self.try_icmp(now, icmp).is_some() {
            self.stats.icmp_accepted += 1;
        } else {
            self.stats.icmp_ignored += 1;
        }
    }

    fn try_icmp(&mut self, now: Time, icmp: &IcmpInput<'_>) -> Option<()> {
        let quoted: &[u8; 8] = icmp.quoted.first_chunk()?;
        let source_port = u16::from_be_bytes([quoted[0], quoted[1]]);
        let peer_port = u16::from_be_bytes([quoted[2], quoted[3]]);
        let tag = VerificationTag(u32::from_be_bytes([
            quoted[4], quoted[5], quoted[6], quoted[7],
        ]));
        if source_port != self.config.port {
            return None;
        }
        // A message about the UDP port that a translator gave the peer before, or about plain IP
        // where UDP is used now, says nothing of what is sent now.
        let way = icmp.encapsulation;
        // ICMP6: the tag proves that the sender saw a packet of ours.
        let about_init = tag.is_zero();
        let initiate_tag = initiate_tag(icmp.quoted);
        let is_proved = |association: &Association| {
            if about_init {
                initiate_tag == Some(association.local_tag)
            } else {
                tag == association.peer_tag
            }
        };
        let registry = &self.registry;
        let id = registry.find_sender(icmp.remote, peer_port, way, is_proved)?;
        let association = self.registry.get(id)?;
        let kind = match icmp.kind {
            IcmpKind::PortUnreachable if way.is_some() => {
                encapsulated_unreachable(association, icmp.remote)
            }
            kind => kind,
        };
        let remote = icmp.remote;
        match kind {
            // ICMP3
            IcmpKind::PortUnreachable => None,
            // ICMP8. An INIT that was refused only counts before the peer answered another one.
            IcmpKind::ProtocolUnreachable => {
                let waiting = association.peer_tag.is_zero();
                if about_init && !waiting {
                    return None;
                }
                self.with(now, id, |association, cx| {
                    association.on_protocol_unreachable(cx)
                })
            }
            // ICMP7
            IcmpKind::PacketTooBig { mtu } => {
                let plausible = self.with(now, id, |association, _| {
                    let mut plausible = false;
                    for path in association.paths.ids() {
                        if association.paths[path].remote == remote {
                            plausible |= association.on_packet_too_big(path, mtu, now);
                        }
                    }
                    plausible
                })?;
                plausible.then_some(())
            }
            // ICMP9
            IcmpKind::DestinationUnreachable => self.with(now, id, |association, cx| {
                let path = association
                    .paths
                    .iter()
                    .find(|p| p.remote == remote)
                    .map(|p| p.id);
                if let Some(path) = path.filter(|_| !association.state.is_setup()) {
                    association.on_unreachable(path, cx);
                }
            }),
        }
    }
}

/// What "Port Unreachable" means behind UDP (RFC 6951 section 5.5). It may be that only a translator
/// has forgotten the peer: with another path that works, just this one has failed.
fn encapsulated_unreachable(association: &Association, remote: IpAddr) -> IcmpKind {
    let others = association.paths.iter().filter(|p| p.remote != remote);
    if others.into_iter().any(Path::usable) && !association.state.is_setup() {
        IcmpKind::DestinationUnreachable
    } else {
        IcmpKind::ProtocolUnreachable
    }
}

/// The Initiate Tag of a quoted INIT.
fn initiate_tag(quoted: &[u8]) -> Option<VerificationTag> {
    let chunk: &[u8; 8] = quoted.get(12..20)?.try_into().ok()?;
    if chunk[0] != ChunkType::INIT.0 {
        return None;
    }
    Some(VerificationTag(u32::from_be_bytes([
        chunk[4], chunk[5], chunk[6], chunk[7],
    ])))
}
