//! Captures in the pcapng format, as Wireshark reads them.
//!
//! One section, one interface description per interface (link type 101: raw IP; nanoseconds), and
//! an enhanced packet block for each packet with its direction. Blocks are little-endian:
//!
//! ```text
//!  0                   4                   8
//! | block type        | total length      | body … padded to 4 | total length |
//! ```

use std::io::{self, Write};

use crate::packet::Packet;
use crate::time::Time;

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const LINKTYPE_RAW: u16 = 101;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Direction of a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketDirection {
    /// The packet was received.
    Inbound,
    /// The packet was sent.
    Outbound,
}

/// Writes a capture of one or more interfaces.
///
/// Writes are not buffered: use a [`BufWriter`](io::BufWriter) for files.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    inner: W,
    interfaces: u32,
    /// Buffers of the block and the packet being written, reused to avoid allocations.
    block: Vec<u8>,
    packet: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture with the names of its interfaces; packets refer to them by index.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn new(inner: W, interfaces: &[impl AsRef<str>]) -> io::Result<Self> {
        let mut writer = Self {
            inner,
            interfaces: interfaces.len() as u32,
            block: Vec::new(),
            packet: Vec::new(),
        };
        let block = &mut writer.block;
        block.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        block.extend_from_slice(&1_u16.to_le_bytes());
        block.extend_from_slice(&0_u16.to_le_bytes());
        // The length of the section is not known in advance.
        block.extend_from_slice(&u64::MAX.to_le_bytes());
        put_option(block, SHB_USERAPPL, b"carrick");
        put_option(block, OPTION_END, &[]);
        writer.finish_block(SECTION_HEADER)?;
        for name in interfaces {
            let block = &mut writer.block;
            block.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
            block.extend_from_slice(&0_u16.to_le_bytes());
            // The snapshot length is unlimited.
            block.extend_from_slice(&0_u32.to_le_bytes());
            put_option(block, IF_NAME, name.as_ref().as_bytes());
            put_option(block, IF_TSRESOL, &[9]);
            put_option(block, OPTION_END, &[]);
            writer.finish_block(INTERFACE_DESCRIPTION)?;
        }
        Ok(writer)
    }

    /// Writes a packet with its IP header and, if it has one, its UDP header. `time` counts from
    /// the epoch of readers, 1970.
    ///
    /// # Errors
    /// Errors of the writer, or `InvalidInput` if the interface does not exist.
    pub fn write_packet(
        &mut self,
        interface: u32,
        time: Time,
        direction: PacketDirection,
        packet: &Packet,
    ) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.packet);
        bytes.clear();
        packet.write_ip(&mut bytes);
        let result = self.write_ip(interface, time, direction, &bytes);
        self.packet = bytes;
        result
    }

    /// Writes a packet as [`Self::write_packet`] does, with a comment that readers show beside it.
    ///
    /// # Errors
    /// See [`Self::write_packet`].
    pub fn write_commented(
        &mut self,
        interface: u32,
        time: Time,
        direction: PacketDirection,
        packet: &Packet,
        comment: &str,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        packet.write_ip(&mut bytes);
        self.write_block(interface, time, direction, &bytes, comment)
    }

    /// Writes an encoded packet that begins with its IP header.
    ///
    /// # Errors
    /// See [`Self::write_packet`].
    pub fn write_ip(
        &mut self,
        interface: u32,
        time: Time,
        direction: PacketDirection,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.write_block(interface, time, direction, bytes, "")
    }

    fn write_block(
        &mut self,
        interface: u32,
        time: Time,
        direction: PacketDirection,
        bytes: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        if interface >= self.interfaces {
            let text = format!("the capture has no interface {interface}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let nanos = time.as_nanos();
        let len = bytes.len() as u32;
        let block = &mut self.block;
        for word in [interface, (nanos >> 32) as u32, nanos as u32, len, len] {
            block.extend_from_slice(&word.to_le_bytes());
        }
        block.extend_from_slice(bytes);
        pad(block);
        let flags: u32 = match direction {
            PacketDirection::Inbound => 1,
            PacketDirection::Outbound => 2,
        };
        put_option(block, EPB_FLAGS, &flags.to_le_bytes());
        if !comment.is_empty() {
            put_option(block, OPTION_COMMENT, comment.as_bytes());
        }
        put_option(block, OPTION_END, &[]);
        self.finish_block(ENHANCED_PACKET)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Ends the capture and returns the writer without flushing it.
    pub fn into_inner(self) -> W {
        self.inner
    }

    fn finish_block(&mut self, kind: u32) -> io::Result<()> {
        let total = self.block.len() as u32 + 12;
        self.inner.write_all(&kind.to_le_bytes())?;
        self.inner.write_all(&total.to_le_bytes())?;
        self.inner.write_all(&self.block)?;
        self.inner.write_all(&total.to_le_bytes())?;
        self.block.clear();
        Ok(())
    }
}

fn put_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    // A name that the length field cannot hold is truncated; no reader depends on it.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    pad(block);
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::packet::Protocol;

    /// Splits a capture into (type, body) and checks both length fields of every block.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().expect("four bytes"));
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let total = word(&bytes[4..]) as usize;
            assert!(total.is_multiple_of(4) && total <= bytes.len());
            assert_eq!(word(&bytes[total - 4..]) as usize, total);
            blocks.push((word(bytes), bytes[8..total - 4].to_vec()));
            bytes = &bytes[total..];
        }
        blocks
    }

    #[test]
    fn blocks_are_laid_out_as_specified() {
        let mut writer = PcapngWriter::new(Vec::new(), &["a-0", "bb-12"]).expect("memory");
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let packet = Packet::new(address, address, Protocol::Sctp, vec![0xAB; 13]);
        let time = Time::from_nanos(0x1_0000_0002);
        writer
            .write_packet(1, time, PacketDirection::Outbound, &packet)
            .expect("memory");
        let refused = writer.write_packet(2, time, PacketDirection::Inbound, &packet);
        assert_eq!(
            refused.expect_err("only two interfaces").kind(),
            io::ErrorKind::InvalidInput
        );
        let blocks = blocks(&writer.into_inner());
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0A0D_0D0A, 1, 1, 6]);
        assert_eq!(blocks[0].1[..4], [0x4D, 0x3C, 0x2B, 0x1A]);
        assert_eq!(blocks[2].1[..8], [101, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(blocks[2].1[8..20], *b"\x02\0\x05\0bb-12\0\0\0");
        assert_eq!(blocks[2].1[20..], *b"\x09\0\x01\0\x09\0\0\0\0\0\0\0");
        let body = &blocks[3].1;
        let head: Vec<u8> = [1_u32, 1, 2, 33, 33]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        assert_eq!(body[..20], head);
        assert_eq!(body[20..53], packet.to_ip_bytes());
        assert_eq!(body[53..56], [0; 3]);
        assert_eq!(body[56..], *b"\x02\0\x04\0\x02\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_comment_is_an_option_of_its_packet() {
        let mut writer = PcapngWriter::new(Vec::new(), &["a"]).expect("memory");
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let packet = Packet::new(address, address, Protocol::Sctp, vec![0xAB; 12]);
        let inbound = PacketDirection::Inbound;
        writer
            .write_commented(0, Time::ZERO, inbound, &packet, "SACK?")
            .expect("memory");
        let blocks = blocks(&writer.into_inner());
        let options = *b"\x02\0\x04\0\x01\0\0\0\x01\0\x05\0SACK?\0\0\0\0\0\0\0";
        assert_eq!(blocks[2].1[52..], options);
    }
}
