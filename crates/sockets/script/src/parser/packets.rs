//! Packets and ICMP messages of a script.

use carrick_proto::{Ecn, IcmpKind};

use super::{Parsed, Parser};
use crate::model::{Action, EcnSpec, IcmpSpec, Note, PacketSpec};
use crate::schema::ItemGroup;

impl Parser<'_> {
    /// Parses the packet behind `<` or `>`.
    pub(super) fn packet(&mut self, is_injected: bool) -> Parsed<Action> {
        self.is_injected = is_injected;
        let mut packet = PacketSpec::default();
        let quoted = self.prefix(&mut packet)?;
        if self.take_word("icmp")? {
            return self.icmp(&packet, quoted).map(Action::Icmp);
        }
        if quoted.is_some() {
            return Err(self.error("expected `icmp` behind the packet that it quotes"));
        }
        self.expect("sctp")?;
        if self.take("(")? {
            loop {
                self.packet_field(&mut packet)?;
                if !self.take(",")? {
                    break;
                }
            }
            self.expect(")")?;
        }
        if self.take("/")? {
            self.udp_ports(&mut packet)?;
        }
        self.expect(":")?;
        self.skip()?;
        if self.rest().starts_with('[') {
            packet.raw = Some(self.list(|parser| Ok(parser.unsigned("a byte", 0xff)? as u8))?);
        } else {
            loop {
                packet.chunks.push(self.item(ItemGroup::Chunk)?);
                if !self.take(";")? {
                    break;
                }
            }
        }
        Ok(if is_injected {
            Action::Inject(packet)
        } else {
            Action::Expect(packet)
        })
    }

    /// Parses addresses, fields of the IP header and ports in front of the protocol; returns the packet that an ICMP
    /// message quotes.
    fn prefix(&mut self, packet: &mut PacketSpec) -> Parsed<Option<PacketSpec>> {
        let mut quoted = None;
        loop {
            self.skip()?;
            let rest = self.rest();
            let is_list = self.take("[")?;
            if is_list && self.take_word("sctp")? {
                quoted = Some(self.quoted()?);
                continue;
            }
            if is_list || self.take("(")? {
                self.ip_fields(packet)?;
                continue;
            }
            if rest.starts_with("sctp") || rest.starts_with("icmp") {
                return Ok(quoted);
            }
            // `ipv4 A > B:` as in scripts with tunnels, or the addresses alone.
            if self.take_word("ipv4")? || self.take_word("ipv6")? {
                continue;
            }
            let is_address = rest
                .find(|c: char| !c.is_ascii_hexdigit())
                .is_some_and(|end| rest[end..].starts_with(['.', ':']));
            if is_address {
                let source = self.address("`sctp` or an address")?;
                self.expect(">")?;
                let destination = self.address("an address")?;
                self.expect(":")?;
                packet.addresses = Some((source, destination));
            } else if rest.starts_with(|c: char| c.is_ascii_digit()) {
                packet.source_port = Some(self.unsigned("a port", 65_535)? as u16);
                self.expect(">")?;
                packet.destination_port = Some(self.unsigned("a port", 65_535)? as u16);
            } else {
                return Err(self.error("expected `sctp`, `icmp`, ports or addresses"));
            }
        }
    }

    /// Parses fields of the IP header up to the closing bracket. The ECN field counts; others have no effect.
    fn ip_fields(&mut self, packet: &mut PacketSpec) -> Parsed<()> {
        const WHAT: &str = "a field of the IP header, such as ect0 or ttl";
        loop {
            self.skip()?;
            let (start, position) = (self.at, self.position());
            let word = self.word(WHAT)?;
            let word = match word {
                "ecn" => self.word(WHAT)?,
                _ => word,
            };
            let number = |parser: &mut Self| parser.unsigned("a number", 0xf_ffff);
            match word {
                "noecn" => packet.ecn = Some(EcnSpec::Is(Ecn::NotCapable)),
                "ect0" => packet.ecn = Some(EcnSpec::Is(Ecn::Capable0)),
                "ect1" => packet.ecn = Some(EcnSpec::Is(Ecn::Capable1)),
                "ce" => packet.ecn = Some(EcnSpec::Is(Ecn::CongestionExperienced)),
                "ect01" if !self.is_injected => packet.ecn = Some(EcnSpec::Capable),
                "tos" | "class" => {
                    packet.ecn = Some(EcnSpec::Is(Ecn::from_bits(number(self)? as u8)));
                }
                "dscp" | "ttl" | "hlim" | "flowlabel" | "id" => {
                    self.skip()?;
                    match self.peek() {
                        Some(c) if c.is_ascii_digit() => drop(number(self)?),
                        _ => drop(self.word(WHAT)?),
                    }
                    self.notes.push(Note {
                        position,
                        text: format!("{word} of the IP header has no effect"),
                    });
                }
                _ => {
                    self.at = start;
                    return Err(self.error(format!("expected {WHAT}")));
                }
            }
            if !self.take(",")? {
                self.skip()?;
                if self.take(")")? || self.take("]")? {
                    return Ok(());
                }
                return Err(self.error("expected `)` or `]`"));
            }
        }
    }

    /// Parses `udp(SOURCE > DESTINATION)` (RFC 6951).
    fn udp_ports(&mut self, packet: &mut PacketSpec) -> Parsed<()> {
        self.expect("udp")?;
        self.expect("(")?;
        let source = self.unsigned("a UDP port", 65_535)? as u16;
        self.expect(">")?;
        let destination = self.unsigned("a UDP port", 65_535)? as u16;
        self.expect(")")?;
        packet.udp_ports = Some((source, destination));
        Ok(())
    }

    /// Parses verification tag and UDP ports of the packet that an ICMP message quotes, behind `[sctp`.
    fn quoted(&mut self) -> Parsed<PacketSpec> {
        let mut quoted = PacketSpec::default();
        if self.take("(")? {
            self.take("tag")?;
            self.take("=")?;
            quoted.tag = Some(self.number(u64::from(u32::MAX))?);
            self.expect(")")?;
        }
        if self.take("/")? {
            self.udp_ports(&mut quoted)?;
        }
        self.expect("]")?;
        Ok(quoted)
    }

    /// Parses type and code of an ICMP message, and the packet that it quotes unless that is in front.
    fn icmp(&mut self, outer: &PacketSpec, quoted: Option<PacketSpec>) -> Parsed<IcmpSpec> {
        if !self.is_injected {
            return Err(self.error("the stack sends no ICMP messages: write `<`"));
        }
        self.skip()?;
        let start = self.at;
        let kind = self.word("the type of an ICMP message, such as unreachable")?;
        let (mut code, mut mtu) = ("", None);
        loop {
            self.skip()?;
            if self.take_word("mtu")? {
                mtu = Some(self.unsigned("an MTU", 65_535)? as usize);
            } else if self.take_word("id")? {
                self.unsigned("an identifier", 65_535)?;
            } else if code.is_empty() && self.peek().is_some_and(char::is_alphabetic) {
                code = self.word("the code of an ICMP message")?;
            } else {
                break;
            }
        }
        let too_big = kind == "packet_too_big" || code == "frag_needed";
        let kind = match (kind, code) {
            _ if too_big => {
                let mtu = mtu.ok_or_else(|| self.error("expected `mtu` and the MTU"))?;
                IcmpKind::PacketTooBig { mtu }
            }
            ("unreachable", "protocol_unreachable") | ("parameter_problem", _) => {
                IcmpKind::ProtocolUnreachable
            }
            ("unreachable", "port_unreachable") => IcmpKind::PortUnreachable,
            ("unreachable", _) => IcmpKind::DestinationUnreachable,
            _ => {
                self.at = start;
                return Err(self.error("expected unreachable, packet_too_big or parameter_problem"));
            }
        };
        let quoted = match quoted {
            None if self.take("[")? => {
                self.expect("sctp")?;
                self.quoted()?
            }
            quoted => quoted.unwrap_or_default(),
        };
        Ok(IcmpSpec {
            kind,
            addresses: outer.addresses,
            tag: quoted.tag,
            udp_ports: quoted.udp_ports,
        })
    }

    fn packet_field(&mut self, packet: &mut PacketSpec) -> Parsed<()> {
        const WHAT: &str = "tag, sport, dport or bad_crc32c";
        self.skip()?;
        let start = self.at;
        let key = self.word(WHAT)?;
        if key == "bad_crc32c" && self.is_injected {
            packet.bad_crc32c = true;
            return Ok(());
        }
        if !["tag", "sport", "dport"].contains(&key) {
            self.at = start;
            return Err(self.error(format!("expected {WHAT}")));
        }
        self.expect("=")?;
        if key == "tag" {
            packet.tag = Some(self.number(u64::from(u32::MAX))?);
            return Ok(());
        }
        let port = Some(self.unsigned("a port", 65_535)? as u16);
        match key {
            "sport" => packet.source_port = port,
            _ => packet.destination_port = port,
        }
        Ok(())
    }
}
