//! Pinholes that an offer and its answer need (RFC 3264).

use std::net::SocketAddr;

use carrick_simco::message::{
    AddressTuple, Direction, EnableRequest, Lifetime, Location, PerParameters, PortParity,
};

use crate::config::{B2buaConfig, FirewallSide};
use crate::sdp::{MediaStream, SessionDescription};

/// Pinhole between consecutive ports of an internal and an external host, mapped in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PinholeRequest {
    /// Transport protocol.
    pub protocol: u8,
    /// Host behind the firewall.
    pub internal: SocketAddr,
    /// Host beyond the firewall.
    pub external: SocketAddr,
    /// Number of ports, at least 1.
    pub ports: u16,
    /// Direction of packets.
    pub direction: Direction,
}

impl PinholeRequest {
    /// Returns the request to the middlebox.
    pub fn request(&self, lifetime: Lifetime) -> EnableRequest {
        let tuple = |location, end: SocketAddr| {
            AddressTuple::range(location, self.protocol, end.ip(), end.port(), self.ports)
        };
        EnableRequest {
            parameters: PerParameters {
                parity: if self.ports > 1 {
                    PortParity::Same
                } else {
                    PortParity::Any
                },
                direction: self.direction,
            },
            internal: tuple(Location::Internal, self.internal),
            external: tuple(Location::External, self.external),
            lifetime,
            group: None,
        }
    }
}

/// Address on the other side of the firewall than the sender of its description, who must not open
/// pinholes for hosts of that side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is on the other side of the firewall than the sender of the description")]
pub struct MisplacedAddress(pub SocketAddr);

/// Returns the pinholes that the streams of an offer and its answer need, in order. A stream whose
/// ends are on the same side of the firewall needs none. `offerer_side` is the side of the offerer; the
/// answerer is on the other one.
///
/// # Errors
/// A description has an address of the other side.
pub fn openings(
    config: &B2buaConfig,
    offer: &SessionDescription,
    answer: &SessionDescription,
    offerer_side: FirewallSide,
) -> Result<Vec<PinholeRequest>, MisplacedAddress> {
    let mut out = Vec::new();
    for (offered, answered) in offer.streams.iter().zip(&answer.streams) {
        let (Some(offered), Some(answered)) = (offered, answered) else {
            continue;
        };
        // A stream on hold may have no address.
        let (Some(offerer), Some(answerer)) = (offered.address, answered.address) else {
            continue;
        };
        let inside = [offerer, answerer].map(|end| config.is_internal(end.ip()));
        let (inner, outer) = match (inside, offerer_side) {
            ([true, false], FirewallSide::Inside) => (offered, answered),
            ([false, true], FirewallSide::Outside) => (answered, offered),
            ([true, false] | [false, true], _) => return Err(MisplacedAddress(offerer)),
            _ => continue,
        };
        if let Some(end) = inner.rtcp.filter(|end| !config.is_internal(end.ip())) {
            return Err(MisplacedAddress(end));
        }
        if let Some(end) = outer.rtcp.filter(|end| config.is_internal(end.ip())) {
            return Err(MisplacedAddress(end));
        }
        add(&mut out, inner, outer);
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// Adds the pinholes between two ends of a stream.
fn add(out: &mut Vec<PinholeRequest>, inner: &MediaStream, outer: &MediaStream) {
    let (Some(internal), Some(external)) = (inner.address, outer.address) else {
        return;
    };
    if inner.protocol != outer.protocol || internal.is_ipv4() != external.is_ipv4() {
        return;
    }
    let opening = |internal, external, ports, direction| PinholeRequest {
        protocol: inner.protocol,
        internal,
        external,
        ports,
        direction,
    };
    let outward = inner.sends && outer.receives;
    let inward = outer.sends && inner.receives;
    let direction = match (outward, inward) {
        (true, true) => Some(Direction::Both),
        (true, false) => Some(Direction::Outbound),
        (false, true) => Some(Direction::Inbound),
        (false, false) => None,
    };
    if inner.protocol != 17 {
        // TCP needs both directions, whichever side sends.
        out.push(opening(internal, external, 1, Direction::Both));
        return;
    }
    let (Some(inner_rtcp), Some(outer_rtcp)) = (inner.rtcp, outer.rtcp) else {
        out.extend(direction.map(|direction| opening(internal, external, 1, direction)));
        return;
    };
    // RTCP needs both directions, whichever side sends (RFC 3264, section 5.1).
    if inner.mux && outer.mux {
        out.push(opening(internal, external, 1, Direction::Both));
        return;
    }
    let next = |first: SocketAddr, second: SocketAddr| {
        first.ip() == second.ip() && first.port().checked_add(1) == Some(second.port())
    };
    let pairs = inner.pairs.min(outer.pairs);
    let side_by_side = next(internal, inner_rtcp) && next(external, outer_rtcp);
    if side_by_side && (direction == Some(Direction::Both) || pairs > 1) {
        out.push(opening(internal, external, 2 * pairs, Direction::Both));
        return;
    }
    out.extend(direction.map(|direction| opening(internal, external, 1, direction)));
    if inner_rtcp.is_ipv4() == outer_rtcp.is_ipv4() {
        out.push(opening(inner_rtcp, outer_rtcp, 1, Direction::Both));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> B2buaConfig {
        let internal = ["10.0.0.0/8", "fd00::/16"].map(|p| p.parse().unwrap());
        B2buaConfig::new("10.0.0.254:5060".parse().unwrap(), internal.to_vec())
    }

    fn describe(address: &str, lines: &str) -> SessionDescription {
        let version = if address.contains(':') { 6 } else { 4 };
        let text = format!(
            "v=0\no=a 1 1 IN IP{version} {address}\ns=-\nc=IN IP{version} {address}\nt=0 0\n{lines}"
        );
        SessionDescription::parse(text.replace('\n', "\r\n").as_bytes()).unwrap()
    }

    /// Pinholes as text: ends, ports, direction.
    fn found(offer: &SessionDescription, answer: &SessionDescription) -> Vec<String> {
        let text = |o: PinholeRequest| {
            format!(
                "{} {} {} {:?}",
                o.internal, o.external, o.ports, o.direction
            )
        };
        let mut forth: Vec<_> = openings(&config(), offer, answer, FirewallSide::Inside)
            .unwrap()
            .into_iter()
            .map(text)
            .collect();
        let back: Vec<_> = openings(&config(), answer, offer, FirewallSide::Outside)
            .unwrap()
            .into_iter()
            .map(text)
            .collect();
        assert_eq!(forth, back, "either side may offer");
        forth.sort();
        forth
    }

    #[test]
    fn adjacent_rtp_and_rtcp_share_a_pinhole() {
        let offer = describe(
            "10.0.0.1",
            "m=audio 4000 RTP/AVP 0\nm=video 4002 RTP/AVP 96\n",
        );
        let answer = describe(
            "192.0.2.1",
            "m=audio 6000 RTP/AVP 0\nm=video 6002 RTP/AVP 96\n",
        );
        assert_eq!(
            found(&offer, &answer),
            [
                "10.0.0.1:4000 192.0.2.1:6000 2 Both",
                "10.0.0.1:4002 192.0.2.1:6002 2 Both"
            ]
        );
        let six = describe("fd00::1", "m=audio 4000 RTP/AVP 0\n");
        let answer = describe("2001:db8::1", "m=audio 6000 RTP/AVP 0\n");
        assert_eq!(
            found(&six, &answer),
            ["[fd00::1]:4000 [2001:db8::1]:6000 2 Both"]
        );
    }

    #[test]
    fn rtcp_attribute_gets_its_own_pinhole() {
        let offer = describe("10.0.0.1", "m=audio 4000 RTP/AVP 0\na=rtcp:4700\n");
        let answer = describe("192.0.2.1", "m=audio 6000 RTP/AVP 0\n");
        assert_eq!(
            found(&offer, &answer),
            [
                "10.0.0.1:4000 192.0.2.1:6000 1 Both",
                "10.0.0.1:4700 192.0.2.1:6001 1 Both"
            ]
        );
        let mux =
            |address, port| describe(address, &format!("m=audio {port} RTP/AVP 0\na=rtcp-mux\n"));
        assert_eq!(
            found(&mux("10.0.0.1", 4000), &mux("192.0.2.1", 6000)),
            ["10.0.0.1:4000 192.0.2.1:6000 1 Both"]
        );
        let refused = found(&mux("10.0.0.1", 4000), &answer);
        assert_eq!(refused, ["10.0.0.1:4000 192.0.2.1:6000 2 Both"]);
    }

    #[test]
    fn hold_closes_one_direction_but_not_rtcp() {
        let hold = |way: &str| describe("10.0.0.1", &format!("m=audio 4000 RTP/AVP 0\na={way}\n"));
        let answer =
            |way: &str| describe("192.0.2.1", &format!("m=audio 6000 RTP/AVP 0\na={way}\n"));
        let rtcp = "10.0.0.1:4001 192.0.2.1:6001 1 Both";
        assert_eq!(
            found(&hold("sendonly"), &answer("recvonly")),
            ["10.0.0.1:4000 192.0.2.1:6000 1 Outbound", rtcp]
        );
        assert_eq!(
            found(&hold("recvonly"), &answer("sendonly")),
            ["10.0.0.1:4000 192.0.2.1:6000 1 Inbound", rtcp]
        );
        assert_eq!(found(&hold("inactive"), &answer("inactive")), [rtcp]);
        let old = describe("0.0.0.0", "m=audio 4000 RTP/AVP 0\n");
        assert_eq!(found(&old, &answer("recvonly")), [""; 0]);
    }

    #[test]
    fn rejected_and_one_sided_streams_need_no_pinhole() {
        let offer = describe(
            "10.0.0.1",
            "m=audio 4000 RTP/AVP 0\nm=video 4002 RTP/AVP 96\nm=message 4004 TCP/MSRP *\nm=image 4006 udptl t38\nm=audio 4008/2 RTP/AVP 0\n",
        );
        let answer = describe(
            "192.0.2.1",
            "m=audio 0 RTP/AVP 0\nm=video 6002 RTP/AVP 96\nm=message 6004 TCP/MSRP *\nm=image 6006 udptl t38\nm=audio 6008/2 RTP/AVP 0\n",
        );
        assert_eq!(
            found(&offer, &answer),
            [
                "10.0.0.1:4002 192.0.2.1:6002 2 Both",
                "10.0.0.1:4004 192.0.2.1:6004 1 Both",
                "10.0.0.1:4006 192.0.2.1:6006 1 Both",
                "10.0.0.1:4008 192.0.2.1:6008 4 Both"
            ]
        );
        let inside = describe("10.0.0.2", "m=audio 6000 RTP/AVP 0\n");
        assert_eq!(found(&offer, &inside), [""; 0]);
    }

    #[test]
    fn addresses_of_the_other_side_are_refused() {
        let inner = describe("10.0.0.5", "m=x 2200 TCP/MSRP *\n");
        let outer = describe("203.0.113.9", "m=x 4000 TCP/MSRP *\n");
        let misplaced = |a: &SessionDescription, b: &SessionDescription, place| {
            openings(&config(), a, b, place).unwrap_err()
        };
        let end = |text: &str| MisplacedAddress(text.parse().unwrap());
        let found = misplaced(&inner, &outer, FirewallSide::Outside);
        assert_eq!(found, end("10.0.0.5:2200"));
        let found = misplaced(&outer, &inner, FirewallSide::Inside);
        assert_eq!(found, end("203.0.113.9:4000"));
        // The same with the address of RTCP only.
        let rtcp = |address, other: &str| {
            let lines = format!("m=audio 4000 RTP/AVP 0\na=rtcp:2200 IN IP4 {other}\n");
            describe(address, &lines)
        };
        let [inside, outside] = ["10.0.0.5", "203.0.113.9"];
        let found = misplaced(
            &rtcp(outside, inside),
            &rtcp(inside, inside),
            FirewallSide::Outside,
        );
        assert_eq!(found, end("10.0.0.5:2200"));
        let found = misplaced(
            &rtcp(inside, outside),
            &rtcp(outside, outside),
            FirewallSide::Inside,
        );
        assert_eq!(found, end("203.0.113.9:2200"));
        // A stream on hold has no RTCP either.
        let held = rtcp("0.0.0.0", inside);
        let none = openings(
            &config(),
            &held,
            &rtcp(inside, inside),
            FirewallSide::Outside,
        );
        assert_eq!(none, Ok(Vec::new()));
    }
}
