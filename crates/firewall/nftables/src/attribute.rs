//! Encoding of netlink messages and attributes (RFC 3549, section 2.3.2).
//!
//! ```text
//! +-------------------------------+---------------+---------------+
//! |  length of the message        |     type      |     flags     |   of this host's byte order
//! +-------------------------------+---------------+---------------+
//! |  sequence number              |  port of the sender           |
//! +-------+-------+---------------+-------------------------------+
//! |family |version|  resource     |   nfgenmsg: the same for all of netfilter
//! +-------+-------+---------------+
//! | length        |  type         |  value, filled up to 4 octets     attribute
//! +---------------+---------------+
//! ```

/// Size of a message's header in octets, and with the header of netfilter.
pub(crate) const HEADER_LEN: usize = 16;
pub(crate) const GENERIC_LEN: usize = 20;

const ATTRIBUTE_LEN: usize = 4;
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// Writer of messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageWriter {
    pub(crate) octets: Vec<u8>,
}

impl MessageWriter {
    /// Writes a message; `build` writes its attributes.
    pub(crate) fn message(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        family: u8,
        resource: u16,
        build: impl FnOnce(&mut Self),
    ) {
        let start = self.octets.len();
        self.octets.extend_from_slice(&[0; 4]);
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        self.octets.extend_from_slice(&flags.to_ne_bytes());
        self.octets.extend_from_slice(&sequence.to_ne_bytes());
        self.octets.extend_from_slice(&[0; 4]);
        self.octets.extend_from_slice(&[family, 0]);
        self.octets.extend_from_slice(&resource.to_be_bytes());
        build(self);
        let length = (self.octets.len() - start) as u32;
        self.octets[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Writes an attribute with this value, which must be much shorter than 64 KiB.
    pub(crate) fn value(&mut self, kind: u16, value: &[u8]) {
        let length = (ATTRIBUTE_LEN + value.len()) as u16;
        self.octets.extend_from_slice(&length.to_ne_bytes());
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        self.octets.extend_from_slice(value);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }

    /// Writes a name with a terminating zero.
    pub(crate) fn name(&mut self, kind: u16, name: &str) {
        let mut value = Vec::with_capacity(name.len() + 1);
        value.extend_from_slice(name.as_bytes());
        value.push(0);
        self.value(kind, &value);
    }

    /// Writes a 32-bit number in network byte order.
    pub(crate) fn number(&mut self, kind: u16, number: u32) {
        self.value(kind, &number.to_be_bytes());
    }

    /// Writes a 64-bit number in network byte order.
    pub(crate) fn long(&mut self, kind: u16, number: u64) {
        self.value(kind, &number.to_be_bytes());
    }

    /// Writes an attribute with nested attributes.
    pub(crate) fn nest(&mut self, kind: u16, build: impl FnOnce(&mut Self)) {
        let start = self.octets.len();
        self.octets.extend_from_slice(&[0; 2]);
        self.octets
            .extend_from_slice(&(kind | NESTED).to_ne_bytes());
        build(self);
        let length = (self.octets.len() - start) as u16;
        self.octets[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }
}

/// Received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetlinkMessage<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// Octets after the header.
    pub(crate) body: &'a [u8],
}

impl<'a> NetlinkMessage<'a> {
    /// Returns its attributes, after netfilter's header.
    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.body.get(GENERIC_LEN - HEADER_LEN..).unwrap_or(&[]))
    }
}

/// Messages of a datagram. A truncated one ends the iteration.
pub(crate) struct NetlinkMessages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for NetlinkMessages<'a> {
    type Item = NetlinkMessage<'a>;

    fn next(&mut self) -> Option<NetlinkMessage<'a>> {
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] =
            *self.0.first_chunk::<HEADER_LEN>()?;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let body = self.0.get(HEADER_LEN..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(NetlinkMessage {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            body,
        })
    }
}

/// Attributes. A truncated one ends the iteration.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [l0, l1, k0, k1] = *self.0.first_chunk::<ATTRIBUTE_LEN>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.0.get(ATTRIBUTE_LEN..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((u16::from_ne_bytes([k0, k1]) & TYPE_MASK, value))
    }
}

impl<'a> Attributes<'a> {
    /// Returns the value of the first attribute of a type.
    pub(crate) fn find(&self, wanted: u16) -> Option<&'a [u8]> {
        self.clone()
            .find_map(|(kind, value)| (kind == wanted).then_some(value))
    }

    /// Returns the attributes nested in the first attribute of a type.
    pub(crate) fn inner(&self, wanted: u16) -> Option<Attributes<'a>> {
        self.find(wanted).map(Attributes)
    }

    /// Returns a name without the terminating zero.
    pub(crate) fn name(&self, wanted: u16) -> Option<&'a [u8]> {
        self.find(wanted)?.strip_suffix(&[0])
    }

    /// Returns a 32-bit number.
    pub(crate) fn number(&self, wanted: u16) -> Option<u32> {
        let octets = self.find(wanted)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*octets))
    }

    /// Returns a 64-bit number.
    pub(crate) fn long(&self, wanted: u16) -> Option<u64> {
        let octets = self.find(wanted)?.first_chunk::<8>()?;
        Some(u64::from_be_bytes(*octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip_and_tolerate_truncation() {
        let mut writer = MessageWriter::default();
        writer.message(0x0a03, 0x5, 77, 1, 10, |w| {
            w.name(1, "carrick");
            w.nest(2, |w| {
                w.number(3, 0x0102_0304);
                w.long(4, u64::MAX - 1);
            });
        });
        let whole = writer.octets;
        let message = NetlinkMessages(&whole).next().unwrap();
        assert_eq!((message.kind, message.sequence), (0x0a03, 77));
        assert_eq!(message.attributes().find(1), Some(&b"carrick\0"[..]));
        let inner = message.attributes().inner(2).unwrap();
        assert_eq!(inner.find(3), Some(&[1, 2, 3, 4][..]));
        assert_eq!(inner.long(4), Some(u64::MAX - 1));
        assert!(NetlinkMessages(&whole).nth(1).is_none());
        for length in 0..whole.len() {
            assert!(NetlinkMessages(&whole[..length]).next().is_none());
            let cut = Attributes(&message.body[4..length.max(20) - 16]);
            assert!(cut.count() <= 2);
        }
    }
}
