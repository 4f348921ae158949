//! Packets on their way to the lower layer.

use alloc::vec::Vec;

use crate::route::Route;

/// Packets and bytes in one transmit at most, which is the limit of segmentation offload.
pub(crate) const MAX_SEGMENTS: usize = 64;
pub(crate) const MAX_SEGMENTED_BYTES: usize = 65_000;

/// Packets for one route, appended to the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Route of the packets.
    pub route: Route,
    /// Number of bytes appended to the buffer.
    pub len: usize,
    /// Size in bytes of all packets but the last, which may be shorter, as for segmentation offload.
    /// `None` for a single packet.
    pub segment_size: Option<usize>,
    /// The packet may exceed the path MTU and is sent without the don't-fragment bit, because the MTU has
    /// decreased since the message was fragmented (RFC 9260, section 6.9). On IPv6 the host creates the
    /// fragments, of at most 1280 bytes, since the path MTU is unknown.
    pub may_fragment: bool,
    /// The packet is a path MTU probe (RFC 8899). It must not be fragmented. If the host refuses its size, as that of any
    /// other packet, call [`Endpoint::handle_oversized`](crate::Endpoint::handle_oversized).
    pub probe: bool,
    /// DSCP of the packets (RFC 2474), 0 to 63.
    pub dscp: u8,
}

impl Transmit {
    /// Returns the packets in the bytes that were written for this transmit.
    pub fn packets_in<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        bytes.chunks(self.segment_size.unwrap_or(bytes.len()).max(1))
    }

    /// Returns the octet of DSCP and ECN field in the IP header: Type of Service of IPv4, Traffic Class of IPv6
    /// (RFC 2474, section 3; RFC 3168, section 5).
    pub const fn traffic_class(&self) -> u8 {
        self.dscp << 2 | self.route.ecn.bits()
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> usize {
        self.segment_size.map_or(1, |size| self.len.div_ceil(size))
    }
    /// Returns the size of all packets but the last.
    fn size(&self) -> usize {
        self.segment_size.unwrap_or(self.len).max(1)
    }

    /// Returns whether no further packet can be appended.
    fn is_complete(&self) -> bool {
        let size = self.size();
        let alone = self.probe || self.may_fragment;
        let full = self.packets() >= MAX_SEGMENTS || self.len + size > MAX_SEGMENTED_BYTES;
        alone || full || !self.len.is_multiple_of(size)
    }

    /// Returns both as one transmit, if segmentation offload can send `next` behind this one.
    ///
    /// Both have packets of one size. A router whose MTU is too small for the first packets would drop a shorter one
    /// behind them as well, such as the HEARTBEAT by which a black hole is noticed (RFC 8899, section 4.3).
    fn joined(&self, next: &Self) -> Option<Self> {
        let size = self.size();
        let alike = self.route == next.route
            && self.dscp == next.dscp
            && !(next.probe || next.may_fragment)
            && next.size() == size;
        let len = self.len + next.len;
        let fits = self.packets() + next.packets() <= MAX_SEGMENTS && len <= MAX_SEGMENTED_BYTES;
        (alike && fits && !self.is_complete()).then_some(Self {
            len,
            segment_size: Some(size),
            ..*self
        })
    }
}

/// Joins the packets of many associations that have one route, so that the lower layer sends them with one call.
///
/// SACKs of associations behind one gateway, for example, have one size and one destination. Packets are only joined
/// with those that follow at once: their order is that of [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit).
#[derive(Debug, Default)]
pub struct JoinedTransmits {
    bytes: Vec<u8>,
    /// Bytes at the beginning of `bytes` that the last call returned.
    returned: usize,
    /// Transmit whose bytes follow these.
    waiting: Option<Transmit>,
}

impl JoinedTransmits {
    /// Returns the next transmit and its bytes. `next` appends the packets of a transmit to a buffer and returns it,
    /// `None` if there is none; it is called until what it returns cannot be joined.
    pub fn poll(
        &mut self,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<Transmit>,
    ) -> Option<(Transmit, &[u8])> {
        self.bytes.drain(..self.returned);
        self.returned = 0;
        let mut transmit = match self.waiting.take() {
            Some(waiting) => waiting,
            None => next(&mut self.bytes)?,
        };
        while !transmit.is_complete() {
            let Some(following) = next(&mut self.bytes) else {
                break;
            };
            let Some(joined) = transmit.joined(&following) else {
                self.waiting = Some(following);
                break;
            };
            transmit = joined;
        }
        self.returned = transmit.len.min(self.bytes.len());
        Some((transmit, &self.bytes[..self.returned]))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::route::Ecn;

    /// Packets of these sizes for a host, filled with a byte.
    fn transmit(host: u8, sizes: &[usize], fill: u8) -> (Transmit, Vec<u8>) {
        let len = sizes.iter().sum();
        let transmit = Transmit {
            route: Route {
                local: None,
                remote: [192, 0, 2, host].into(),
                encapsulation: Some(9899),
                ecn: Ecn::NotCapable,
            },
            len,
            segment_size: (sizes.len() > 1).then(|| sizes[0]),
            may_fragment: false,
            probe: false,
            dscp: 0,
        };
        (transmit, vec![fill; len])
    }

    /// Lengths of the joined transmits, each with the size of its packets, after a check of the bytes.
    fn join(transmits: &[(Transmit, Vec<u8>)]) -> Vec<(usize, Option<usize>)> {
        let mut joiner = JoinedTransmits::default();
        let mut inputs = transmits.iter();
        let mut outputs = Vec::new();
        let mut bytes = Vec::new();
        while let Some((transmit, packets)) = joiner.poll(|buf| {
            let (transmit, packets) = inputs.next()?;
            buf.extend(packets);
            Some(*transmit)
        }) {
            assert_eq!(packets.len(), transmit.len);
            outputs.push((transmit.len, transmit.segment_size));
            bytes.extend_from_slice(packets);
        }
        let all: Vec<u8> = transmits.iter().flat_map(|(_, b)| b.clone()).collect();
        assert_eq!(bytes, all);
        outputs
    }

    #[test]
    fn packets_of_one_size_and_route_are_joined() {
        let sacks: Vec<_> = (0..130).map(|n| transmit(1, &[28], n)).collect();
        let of_64 = (64 * 28, Some(28));
        assert_eq!(join(&sacks), [of_64, of_64, (56, Some(28))]);
        let both = [transmit(1, &[50, 50], 1), transmit(1, &[50, 20], 2)];
        assert_eq!(join(&both), [(170, Some(50))]);
    }

    /// RFC 8899, section 4.3: a HEARTBEAT may pass where full packets are lost.
    #[test]
    fn a_shorter_packet_leaves_alone() {
        let sizes = [100, 100, 60, 60, 100];
        let packets: Vec<_> = sizes.iter().map(|&s| transmit(1, &[s], 0)).collect();
        let expected = [(200, Some(100)), (120, Some(60)), (100, None)];
        assert_eq!(join(&packets), expected);
        let short_last = [transmit(1, &[100, 60], 1), transmit(1, &[60], 2)];
        assert_eq!(join(&short_last), [(160, Some(100)), (60, None)]);
    }

    #[test]
    fn packets_that_differ_leave_apart() {
        let (first, bytes) = transmit(1, &[28], 0);
        let mut ecn = first;
        ecn.route.ecn = Ecn::Capable0;
        let others = [
            transmit(2, &[28], 0).0,
            ecn,
            Transmit { dscp: 46, ..first },
            Transmit {
                probe: true,
                ..first
            },
            Transmit {
                may_fragment: true,
                ..first
            },
        ];
        for other in others {
            let three = [first, other, first].map(|t| (t, bytes.clone()));
            assert_eq!(join(&three), [(28, None); 3], "{other:?}");
        }
    }

    #[test]
    fn a_transmit_has_at_most_the_bytes_of_a_datagram() {
        let packets: Vec<_> = (0..10).map(|n| transmit(1, &[8_972], n)).collect();
        let seven = (7 * 8_972, Some(8_972));
        assert_eq!(join(&packets), [seven, (3 * 8_972, Some(8_972))]);
    }
}
