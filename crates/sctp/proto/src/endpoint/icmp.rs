//! ICMP messages (RFC 9260, section 10; RFC 6951, section 5.5).

use core::net::IpAddr;

use carrick_wire::{ChunkType, VerificationTag};

use super::Endpoint;
use crate::association::Association;
use crate::path::Path;
use crate::time::Time;
use crate::transmit::Transmit;

/// Kind of an ICMP message that concerns SCTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// "Fragmentation Needed" or "Packet Too Big".
    PacketTooBig {
        /// MTU of the next hop in bytes, IP header included.
        mtu: usize,
    },
    /// "Protocol Unreachable", or "Unrecognized Next Header Type Encountered".
    ProtocolUnreachable,
    /// "Port Unreachable": ignored on plain IP; with UDP encapsulation like "Protocol Unreachable".
    PortUnreachable,
    /// Any other "Destination Unreachable".
    DestinationUnreachable,
}

/// ICMP message that the driver received.
#[derive(Clone, Copy, Debug)]
pub struct IcmpInput<'a> {
    /// Kind of the message.
    pub kind: IcmpKind,
    /// Destination address of the quoted packet.
    pub remote: IpAddr,
    /// Destination UDP port of the quoted packet; `None` if it was sent on plain IP.
    pub encapsulation: Option<u16>,
    /// First bytes of the quoted SCTP packet: at least the 8 up to the end of the verification tag.
    pub quoted: &'a [u8],
}

impl Endpoint {
    /// Processes the host's refusal to send a packet that exceeds the MTU of its interface. `packet` is one of those
    /// that [`Self::poll_transmit`] wrote for `transmit`, and `route_mtu` the MTU of the route in bytes, if the host has
    /// it.
    ///
    /// The search for the path MTU continues with other sizes after a refused probe ([`Transmit::probe`]). After any other
    /// packet the path gets the MTU of the route, and what is in flight on it is sent again in smaller packets, as after an
    /// ICMP message (RFC 9260, section 10, ICMP7).
    pub fn handle_oversized(
        &mut self,
        now: Time,
        transmit: &Transmit,
        packet: &[u8],
        route_mtu: Option<usize>,
    ) {
        let Some(&[_, _, high, low, t0, t1, t2, t3]) = packet.first_chunk() else {
            return;
        };
        let port = u16::from_be_bytes([high, low]);
        let tag = VerificationTag(u32::from_be_bytes([t0, t1, t2, t3]));
        let route = &transmit.route;
        let (remote, encapsulation) = (route.remote, route.encapsulation);
        let has_tag = |association: &Association| association.peer_tag() == tag;
        let sender = self
            .registry
            .find_quoted_sender(remote, port, encapsulation, has_tag);
        let Some(id) = sender else {
            return;
        };
        self.update_association(now, id, |association, _| {
            if transmit.probe {
                association.on_probe_refused(route, packet.len(), now);
            } else if let Some(mtu) = route_mtu {
                association.limit_mtu_of(route, mtu, now);
            }
        });
    }

    /// Processes an ICMP message (RFC 9260, section 10). A message whose quoted packet does not have the
    /// ports and tag of an association of this endpoint is ignored; both cases are counted in
    /// [`Self::stats`].
    pub fn handle_icmp(&mut self, now: Time, icmp: &IcmpInput<'_>) {
        if self.apply_icmp(now, icmp).is_some() {
            self.stats.icmp_accepted += 1;
        } else {
            self.stats.icmp_ignored += 1;
        }
    }

    /// Applies an ICMP message to its association; `None` if it is ignored (rules of RFC 9260, section 10):
    ///
    /// 1. Find the association of the quoted addresses, ports and encapsulation (ICMP5), and validate the
    ///    quoted Verification Tag, or for an INIT its Initiate Tag (ICMP6).
    /// 2. With UDP encapsulation, treat a "Port Unreachable" as "Protocol Unreachable" (RFC 6951, section 5.5).
    ///    Where another path works, treat both as "Destination Unreachable", the latter with the policy
    ///    [`AbortAfterSilence`](crate::research::ProtocolUnreachable::AbortAfterSilence) only.
    /// 3. Apply the kind: ignore a "Port Unreachable" (ICMP3), end the association or try another address of its
    ///    set-up (ICMP8), reduce the path MTU (ICMP7), or count an error of the path (ICMP9).
    fn apply_icmp(&mut self, now: Time, icmp: &IcmpInput<'_>) -> Option<()> {
        // 1.
        let quoted: &[u8; 8] = icmp.quoted.first_chunk()?;
        let source_port = u16::from_be_bytes([quoted[0], quoted[1]]);
        let peer_port = u16::from_be_bytes([quoted[2], quoted[3]]);
        let tag = VerificationTag(u32::from_be_bytes([
            quoted[4], quoted[5], quoted[6], quoted[7],
        ]));
        if source_port != self.config.port {
            return None;
        }
        // A message about a former encapsulation of the peer does not apply to current packets.
        let encapsulation = icmp.encapsulation;
        // The tag proves that the sender saw a packet of this side.
        let about_init = tag.is_zero();
        let initiate_tag = initiate_tag(icmp.quoted);
        let is_proved = |association: &Association| {
            if about_init {
                initiate_tag == Some(association.local_tag())
            } else {
                tag == association.peer_tag()
            }
        };
        let registry = &self.registry;
        let id = registry.find_quoted_sender(icmp.remote, peer_port, encapsulation, is_proved)?;
        let association = self.registry.get(id)?;
        // 2.
        let kind = match icmp.kind {
            IcmpKind::PortUnreachable if encapsulation.is_some() => {
                peer_unreachable(association, icmp.remote)
            }
            IcmpKind::ProtocolUnreachable if association.continues_after_protocol_unreachable() => {
                peer_unreachable(association, icmp.remote)
            }
            kind => kind,
        };
        // 3.
        let remote = icmp.remote;
        match kind {
            // ICMP3.
            IcmpKind::PortUnreachable => None,
            // ICMP8. A refused INIT counts only until the peer has answered another one.
            IcmpKind::ProtocolUnreachable => {
                let waiting = association.peer_tag().is_zero();
                if about_init && !waiting {
                    return None;
                }
                self.update_association(now, id, |association, cx| {
                    let is_setup = association.state().is_setup();
                    if !is_setup || !association.try_next_address(remote) {
                        association.on_protocol_unreachable(cx);
                    }
                })
            }
            // ICMP7.
            IcmpKind::PacketTooBig { mtu } => {
                let plausible = self.update_association(now, id, |association, _| {
                    association.on_packet_too_big(remote, mtu, now)
                })?;
                plausible.then_some(())
            }
            // ICMP9.
            IcmpKind::DestinationUnreachable => {
                self.update_association(now, id, |association, cx| {
                    association.on_unreachable(remote, cx);
                })
            }
        }
    }
}

/// Returns the kind of a "Protocol Unreachable", or of a "Port Unreachable" with UDP encapsulation (RFC 6951, section
/// 5.5). A translator may have lost its mapping, or another host may have the address now: if another path works,
/// only this one has failed.
fn peer_unreachable(association: &Association, remote: IpAddr) -> IcmpKind {
    let others = association
        .path_set()
        .iter()
        .filter(|p| p.remote() != remote);
    if others.into_iter().any(Path::is_usable) && !association.state().is_setup() {
        IcmpKind::DestinationUnreachable
    } else {
        IcmpKind::ProtocolUnreachable
    }
}

/// Returns the Initiate Tag of a quoted INIT.
pub(super) fn initiate_tag(quoted: &[u8]) -> Option<VerificationTag> {
    let chunk: &[u8; 8] = quoted.get(12..20)?.try_into().ok()?;
    if chunk[0] != ChunkType::INIT.0 {
        return None;
    }
    Some(VerificationTag(u32::from_be_bytes([
        chunk[4], chunk[5], chunk[6], chunk[7],
    ])))
}
