//! Expressions of rules: matches and verdicts.

use crate::abi::{
    IPV4, IPV6, LIST_ELEM, REGISTER_0, bitwise, cmp, data, expr, immediate, lookup, meta, nat,
    payload, verdict,
};
use crate::attribute::MessageWriter;

/// Positions of fields in the header of one IP version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IpFields {
    /// Number of the address family.
    pub(crate) family: u8,
    source: u32,
    destination: u32,
    /// Size of an address in octets.
    pub(crate) length: u32,
}

pub(crate) const V4: IpFields = IpFields {
    family: IPV4,
    source: 12,
    destination: 16,
    length: 4,
};

pub(crate) const V6: IpFields = IpFields {
    family: IPV6,
    source: 8,
    destination: 24,
    length: 16,
};

impl IpFields {
    /// Returns the number of registers that an address takes.
    fn registers(self) -> u32 {
        self.length / 4
    }
}

/// End of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketEnd {
    Source,
    Destination,
}

/// Writer of a rule's expressions.
pub(crate) struct Expressions<'a>(pub(crate) &'a mut MessageWriter);

impl Expressions<'_> {
    fn push(&mut self, name: &str, build: impl FnOnce(&mut MessageWriter)) {
        self.0.nest(LIST_ELEM, |w| {
            w.name(expr::NAME, name);
            w.nest(expr::DATA, build);
        });
    }

    fn meta(&mut self, key: u32, register: u32) {
        self.push("meta", |w| {
            w.number(meta::KEY, key);
            w.number(meta::DREG, register);
        });
    }

    fn compare(&mut self, register: u32, how: u32, with: &[u8]) {
        self.push("cmp", |w| {
            w.number(cmp::SREG, register);
            w.number(cmp::OP, how);
            w.nest(cmp::DATA, |w| w.value(data::VALUE, with));
        });
    }

    fn load(&mut self, base: u32, offset: u32, length: u32, register: u32) {
        self.push("payload", |w| {
            w.number(payload::DREG, register);
            w.number(payload::BASE, base);
            w.number(payload::OFFSET, offset);
            w.number(payload::LEN, length);
        });
    }

    fn load_address(&mut self, ip: IpFields, end: PacketEnd, register: u32) {
        let offset = match end {
            PacketEnd::Source => ip.source,
            PacketEnd::Destination => ip.destination,
        };
        self.load(payload::NETWORK, offset, ip.length, register);
    }

    fn load_port(&mut self, end: PacketEnd, register: u32) {
        let offset = match end {
            PacketEnd::Source => 0,
            PacketEnd::Destination => 2,
        };
        self.load(payload::TRANSPORT, offset, 2, register);
    }

    /// Matches the IP version.
    pub(crate) fn version(&mut self, ip: IpFields) {
        self.meta(meta::NFPROTO, REGISTER_0);
        self.compare(REGISTER_0, cmp::EQUAL, &[ip.family]);
    }

    /// Matches the transport protocol.
    pub(crate) fn protocol(&mut self, protocol: u8) {
        self.meta(meta::L4PROTO, REGISTER_0);
        self.compare(REGISTER_0, cmp::EQUAL, &[protocol]);
    }

    /// Matches the input (source) or output (destination) interface.
    pub(crate) fn interface(&mut self, end: PacketEnd, name: &str) {
        let key = match end {
            PacketEnd::Source => meta::IIFNAME,
            PacketEnd::Destination => meta::OIFNAME,
        };
        self.meta(key, REGISTER_0);
        let mut padded = [0; 16];
        let octets = name.as_bytes().iter().take(15);
        padded.iter_mut().zip(octets).for_each(|(p, o)| *p = *o);
        self.compare(REGISTER_0, cmp::EQUAL, &padded);
    }

    /// Matches the first `prefix` bits of an address.
    pub(crate) fn network(&mut self, ip: IpFields, end: PacketEnd, network: &[u8], prefix: u8) {
        if prefix == 0 {
            return;
        }
        self.load_address(ip, end, REGISTER_0);
        let length = ip.length as usize;
        let mut mask = [0; 16];
        for (n, octet) in mask.iter_mut().enumerate() {
            let bits = usize::from(prefix).saturating_sub(n * 8).min(8);
            *octet = (0xff00_u16 >> bits) as u8;
        }
        self.push("bitwise", |w| {
            w.number(bitwise::SREG, REGISTER_0);
            w.number(bitwise::DREG, REGISTER_0);
            w.number(bitwise::LEN, ip.length);
            w.nest(bitwise::MASK, |w| w.value(data::VALUE, &mask[..length]));
            w.nest(bitwise::XOR, |w| w.value(data::VALUE, &[0; 16][..length]));
        });
        self.compare(REGISTER_0, cmp::EQUAL, network);
    }

    /// Matches a port from `first` to `last`.
    pub(crate) fn ports(&mut self, end: PacketEnd, first: u16, last: u16) {
        if (first, last) == (0, u16::MAX) {
            return;
        }
        self.load_port(end, REGISTER_0);
        if first == last {
            return self.compare(REGISTER_0, cmp::EQUAL, &first.to_be_bytes());
        }
        self.compare(REGISTER_0, cmp::AT_LEAST, &first.to_be_bytes());
        self.compare(REGISTER_0, cmp::AT_MOST, &last.to_be_bytes());
    }

    /// Looks up protocol, source and destination in a set; the value of a map is stored in the first
    /// registers.
    pub(crate) fn flow_in(&mut self, ip: IpFields, set: &str, is_map: bool) {
        let address = ip.registers();
        let mut register = REGISTER_0;
        self.meta(meta::L4PROTO, register);
        register += 1;
        for end in [PacketEnd::Source, PacketEnd::Destination] {
            self.load_address(ip, end, register);
            self.load_port(end, register + address);
            register += address + 1;
        }
        self.lookup(set, is_map);
    }

    fn lookup(&mut self, set: &str, is_map: bool) {
        self.push("lookup", |w| {
            w.name(lookup::SET, set);
            w.number(lookup::SREG, REGISTER_0);
            if is_map {
                w.number(lookup::DREG, REGISTER_0);
            }
        });
    }

    /// Looks up a number in a set.
    pub(crate) fn number_in(&mut self, number: u32, set: &str) {
        self.push("immediate", |w| {
            w.number(immediate::DREG, REGISTER_0);
            w.nest(immediate::DATA, |w| {
                w.value(data::VALUE, &number.to_ne_bytes());
            });
        });
        self.lookup(set, false);
    }

    /// Translates to the address and port in the first registers.
    pub(crate) fn translate(&mut self, ip: IpFields, end: PacketEnd) {
        self.push("nat", |w| {
            let kind = match end {
                PacketEnd::Source => nat::SNAT,
                PacketEnd::Destination => nat::DNAT,
            };
            w.number(nat::TYPE, kind);
            w.number(nat::FAMILY, u32::from(ip.family));
            w.number(nat::REG_ADDR_MIN, REGISTER_0);
            w.number(nat::REG_PROTO_MIN, REGISTER_0 + ip.registers());
        });
    }

    fn verdict(&mut self, code: u32, chain: Option<&str>) {
        self.push("immediate", |w| {
            w.number(immediate::DREG, 0);
            w.nest(immediate::DATA, |w| {
                w.nest(data::VERDICT, |w| {
                    w.number(data::VERDICT_CODE, code);
                    if let Some(chain) = chain {
                        w.name(data::VERDICT_CHAIN, chain);
                    }
                });
            });
        });
    }

    pub(crate) fn accept(&mut self) {
        self.verdict(verdict::ACCEPT, None);
    }

    pub(crate) fn drop(&mut self) {
        self.verdict(verdict::DROP, None);
    }

    pub(crate) fn jump(&mut self, chain: &str) {
        self.verdict(verdict::JUMP, Some(chain));
    }
}
