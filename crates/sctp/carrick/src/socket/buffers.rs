//! Receive buffers, which are reused, and the datagrams cut from them.
//!
//! With receive offload the system puts up to 64 datagrams into one buffer of 64 KiB. A message is
//! a slice of the datagram that brought it, and a slice keeps all of its memory. So datagrams are
//! copied out of the large buffer, [`DATAGRAMS_PER_ALLOCATION`] of the same length into one
//! allocation: what the protocol or the user still holds then keeps no more than these, and the large
//! buffers are never given away.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use carrick_proto::{DATAGRAMS_PER_ALLOCATION, Route};
use quinn_udp::{BATCH_SIZE, RecvMeta};

use super::from_ecn_codepoint;

/// Bytes of one large buffer: the largest IP packet.
const BUFFER: usize = 65_536;

/// Number of buffers that a call may fill after one that has filled none or one.
const MIN_OFFERED: usize = if BATCH_SIZE < 2 { BATCH_SIZE } else { 2 };

/// The shortest IPv4 header.
const IPV4_HEADER: usize = 20;

/// The buffers of an endpoint.
pub(crate) struct ReceiveBuffers {
    memory: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
    /// Number of buffers that the next call may fill. Each that stays empty costs time as well.
    offered: usize,
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self {
            // Zeroed memory costs nothing until it is used.
            memory: vec![0; BATCH_SIZE * BUFFER],
            meta: [RecvMeta::default(); BATCH_SIZE],
            offered: MIN_OFFERED,
        }
    }

    /// Lets `read` fill buffers: as many as it filled last, and as many again. Returns how many it has filled, and whether
    /// those were all.
    pub(super) fn receive(
        &mut self,
        read: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<(usize, bool)> {
        let offered = self.offered;
        let mut rest = self.memory[..offered * BUFFER].chunks_exact_mut(BUFFER);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        let count = read(&mut slices[..offered], &mut self.meta[..offered])?;
        self.offered = (2 * count).clamp(MIN_OFFERED, BATCH_SIZE);
        Ok((count, count == offered))
    }

    /// Returns the datagrams in the first `count` buffers.
    pub(super) fn datagrams(
        &self,
        count: usize,
        local: IpAddr,
        encapsulated: bool,
    ) -> Datagrams<'_> {
        Datagrams {
            buffers: self,
            count,
            local,
            encapsulated,
        }
    }
}

/// Batch of datagrams received by a socket.
pub(crate) struct Datagrams<'b> {
    buffers: &'b ReceiveBuffers,
    count: usize,
    local: IpAddr,
    encapsulated: bool,
}

impl Datagrams<'_> {
    /// Passes the datagrams to `take`, in the order of arrival, those of a buffer together.
    pub(crate) fn for_each(&self, mut take: impl FnMut(&Route, &mut dyn Iterator<Item = Bytes>)) {
        let filled = self.buffers.memory.chunks_exact(BUFFER);
        for (memory, meta) in filled.zip(&self.buffers.meta[..self.count]) {
            // Nothing can be sent to UDP port 0: no answer is due, and no error of the system for one.
            if self.encapsulated && meta.addr.port() == 0 {
                continue;
            }
            let bytes = &memory[..meta.len.min(BUFFER)];
            let mut route = Route {
                local: Some(self.local),
                remote: meta.addr.ip(),
                encapsulation: self.encapsulated.then(|| meta.addr.port()),
                ecn: from_ecn_codepoint(meta.ecn),
            };
            if self.encapsulated {
                take(&route, &mut Segments::new(bytes, meta.stride));
            } else if let Some((source, packet)) = strip_ip_header(bytes, meta.addr.ip()) {
                route.remote = source;
                take(&route, &mut std::iter::once(Bytes::copy_from_slice(packet)));
            }
        }
    }
}

/// Datagrams of `stride` bytes in a received block; the last one may be shorter and gets a separate allocation,
/// because otherwise it would hold one of many times its length.
pub(crate) struct Segments<'b> {
    rest: &'b [u8],
    stride: usize,
    /// Datagrams of the last allocation.
    group: Bytes,
}

impl<'b> Segments<'b> {
    pub(crate) fn new(bytes: &'b [u8], stride: usize) -> Self {
        Self {
            rest: bytes,
            stride: stride.max(1),
            group: Bytes::new(),
        }
    }
}

impl Iterator for Segments<'_> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.group.is_empty() {
            if self.rest.is_empty() {
                return None;
            }
            let count = (self.rest.len() / self.stride).min(DATAGRAMS_PER_ALLOCATION);
            let len = match count {
                0 => self.rest.len(),
                count => count * self.stride,
            };
            let (group, rest) = self.rest.split_at(len);
            (self.group, self.rest) = (Bytes::copy_from_slice(group), rest);
        }
        // A slice of all would cost another reference.
        if self.group.len() <= self.stride {
            return Some(std::mem::take(&mut self.group));
        }
        Some(self.group.split_to(self.stride))
    }
}

/// Removes the IP header, which raw IPv4 sockets deliver and raw IPv6 sockets do not.
fn strip_ip_header(bytes: &[u8], sender: IpAddr) -> Option<(IpAddr, &[u8])> {
    if sender.is_ipv6() {
        return Some((sender, bytes));
    }
    let header: &[u8; IPV4_HEADER] = bytes.first_chunk()?;
    let length = usize::from(header[0] & 0x0f) * 4;
    let source = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || length < IPV4_HEADER {
        return None;
    }
    Some((source.into(), bytes.get(length..total.min(bytes.len()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_fill_twice_as_many_buffers() {
        let mut buffers = ReceiveBuffers::new();
        let mut waiting = 100;
        let offered: Vec<usize> = std::iter::from_fn(|| {
            let mut offered = 0;
            let read = buffers.receive(|slices, meta| {
                offered = slices.len();
                assert_eq!(meta.len(), offered);
                assert!(slices.iter().all(|slice| slice.len() == BUFFER));
                Ok(offered.min(waiting))
            });
            let (count, is_full) = read.unwrap();
            assert_eq!(is_full, count == offered);
            waiting -= count;
            is_full.then_some(offered)
        })
        .collect();
        let doubled = std::iter::successors(Some(MIN_OFFERED), |n| Some((2 * n).min(BATCH_SIZE)));
        assert_eq!(offered, doubled.take(offered.len()).collect::<Vec<_>>());
        assert_eq!(offered.iter().sum::<usize>() + buffers.offered / 2, 100);
    }

    #[test]
    fn a_datagram_from_port_0_is_dropped() {
        let mut buffers = ReceiveBuffers::new();
        let ports = [9899, 0];
        let read = |slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]| {
            for ((slice, meta), port) in slices.iter_mut().zip(meta).zip(ports) {
                slice[..4].copy_from_slice(b"init");
                meta.addr = (Ipv4Addr::LOCALHOST, port).into();
                (meta.len, meta.stride) = (4, 4);
            }
            Ok(ports.len())
        };
        let (count, _) = buffers.receive(read).unwrap();
        let mut from = Vec::new();
        let datagrams = buffers.datagrams(count, Ipv4Addr::LOCALHOST.into(), true);
        datagrams.for_each(|route, packets| from.extend(packets.map(|_| route.encapsulation)));
        assert_eq!(from, [Some(9899)]);
    }

    #[test]
    fn a_coalesced_buffer_is_split_into_datagrams() {
        let bytes: Vec<u8> = (0..=255).cycle().take(64_000).collect();
        for stride in [1, 100, 1452, 5999, 6001, 64_000] {
            let datagrams: Vec<Bytes> = Segments::new(&bytes, stride).collect();
            assert_eq!(datagrams.len(), bytes.len().div_ceil(stride));
            assert!(
                datagrams[..datagrams.len() - 1]
                    .iter()
                    .all(|d| d.len() == stride)
            );
            assert_eq!(datagrams.concat(), bytes);
        }
    }

    /// [`DATAGRAMS_PER_ALLOCATION`]
    #[test]
    fn an_allocation_holds_few_datagrams_of_one_length() {
        for (stride, last) in [(44, 0), (44, 43), (748, 9), (1452, 130), (9000, 1)] {
            let bytes = vec![0; stride * 7 + last];
            let mut kept: Vec<Bytes> = Segments::new(&bytes, stride).collect();
            let follows = |a: &Bytes, b: &Bytes| a.as_ptr_range().end == b.as_ptr();
            let groups = kept.chunk_by(|a, b| a.len() == b.len() && follows(a, b));
            let groups: Vec<usize> = groups.map(<[Bytes]>::len).collect();
            assert_eq!(groups[..2], [4, 3]);
            // An allocation that only this datagram holds is mutable.
            let short = kept.split_off(7);
            drop(kept);
            assert_eq!(short.len(), usize::from(last > 0));
            assert!(short.into_iter().all(|datagram| datagram.is_unique()));
        }
    }

    #[test]
    fn the_ipv4_header_is_stripped_with_its_options() {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[3] = 23;
        packet[12..16].copy_from_slice(&[192, 0, 2, 7]);
        packet.extend(b"abc");
        let sender = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(
            strip_ip_header(&packet, sender),
            Some((sender, &b"abc"[..]))
        );
        packet[0] = 0x46;
        assert_eq!(
            strip_ip_header(&packet, sender),
            None,
            "shorter than its header"
        );
        packet[3] = 27;
        packet.extend(b"defg");
        assert_eq!(
            strip_ip_header(&packet, sender),
            Some((sender, &b"efg"[..]))
        );
        assert_eq!(strip_ip_header(&packet[..19], sender), None);
        packet[0] = 0x65;
        assert_eq!(strip_ip_header(&packet, sender), None, "version 6 in 4");
    }

    #[test]
    fn an_ipv6_packet_comes_without_header() {
        let sender: IpAddr = "2001:db8::7".parse().unwrap();
        assert_eq!(strip_ip_header(b"abc", sender), Some((sender, &b"abc"[..])));
    }
}
