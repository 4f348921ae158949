//! Addresses in session descriptions (RFC 4566).

use std::net::{IpAddr, SocketAddr};

use crate::checks::MAX_BODY;
use crate::media::MisplacedAddress;

/// Maximum number of streams of a description.
const MAX_STREAMS: usize = 16;

/// Maximum number of port pairs of a stream.
const MAX_PAIRS: u16 = 16;

/// Lowest port of media: those below are of system services (RFC 6335, section 6).
const MIN_PORT: u16 = 1024;

/// Port of an active end of TCP, which accepts no connection (RFC 4145, section 4.1).
const DISCARD: u16 = 9;

/// Reason for which a description can't be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SdpError {
    /// Not a session description.
    #[error("the session description is malformed: {0}")]
    Malformed(String),
    /// Host name instead of an address. Names are not resolved: the peer may resolve them differently.
    #[error("{0:?} is not an IP address")]
    NotAnAddress(String),
    /// Larger than any usable description.
    #[error("the session description has {0} octets, more than {MAX_BODY}")]
    TooLong(usize),
    /// Stream for which neither it nor the session has a connection address.
    #[error("a stream has no connection address")]
    NoAddress,
    /// Multicast address: a pinhole for a group would let packets pass to all of its members.
    #[error("{0} is a multicast address, but a pinhole is for one host")]
    Multicast(IpAddr),
    /// Loopback address: other hosts can't reach it, and media would go to services of the receiver's
    /// own host.
    #[error("{0} is a loopback address, which other hosts cannot reach")]
    Loopback(IpAddr),
    /// Broadcast or link-local address, or one that identifies no host: no firewall forwards packets to it.
    #[error("{0} is no address of a host in another network")]
    NotForwarded(IpAddr),
    /// Address of the agent, which receives no media.
    #[error("{0} is the address of this agent, which receives no media")]
    Agent(IpAddr),
    /// Address on the other side of the firewall than the sender of the description.
    #[error(transparent)]
    Misplaced(#[from] MisplacedAddress),
    /// Port of a system service (RFC 6335, section 6).
    #[error("{0} is a port of a system service: media need a port from {MIN_PORT}")]
    SystemPort(u16),
    /// Unknown transport.
    #[error("unknown transport {0:?}")]
    UnknownTransport(String),
    /// Too many streams: each would be a pinhole.
    #[error("the session description has {0} streams, more than {MAX_STREAMS}")]
    TooMany(usize),
    /// Port out of range.
    #[error("a stream has a port out of range or more than {MAX_PAIRS} port pairs")]
    Port,
}

/// Session description.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionDescription {
    /// Streams in order; `None` for rejected ones (port 0).
    pub streams: Vec<Option<MediaStream>>,
}

/// Stream of a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediaStream {
    /// Transport protocol: 17 for UDP, 6 for TCP.
    pub protocol: u8,
    /// Receiving address; `None` for a stream on hold by 0.0.0.0.
    pub address: Option<SocketAddr>,
    /// Number of RTP streams with consecutive port pairs, mostly 1.
    pub pairs: u16,
    /// Receiving address of RTCP, if the stream is RTP.
    pub rtcp: Option<SocketAddr>,
    /// True if RTP and RTCP may use one port (RFC 5761).
    pub mux: bool,
    /// True if the sender of the description will send.
    pub sends: bool,
    /// True if the sender of the description will receive.
    pub receives: bool,
}

impl SessionDescription {
    /// Parses a description.
    ///
    /// # Errors
    /// The description is malformed or has addresses for which no pinhole can be opened.
    pub fn parse(body: &[u8]) -> Result<Self, SdpError> {
        if body.len() > MAX_BODY {
            return Err(SdpError::TooLong(body.len()));
        }
        let session = sdp_types::Session::parse(body);
        let session = session.map_err(|error| SdpError::Malformed(error.to_string()))?;
        if session.medias.len() > MAX_STREAMS {
            return Err(SdpError::TooMany(session.medias.len()));
        }
        let common = session.connection.as_ref();
        let default_direction = direction(&session.attributes).unwrap_or((true, true));
        let streams = session
            .medias
            .iter()
            .map(|media| stream(media, common, default_direction));
        let streams = streams.collect::<Result<_, _>>()?;
        Ok(Self { streams })
    }
}

/// Returns an answer that rejects all streams of an offer (RFC 3264, section 6), from this address;
/// `None` if the offer is malformed.
pub(crate) fn refusal(offer: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    let mut session = sdp_types::Session::parse(offer).ok()?;
    session.origin = sdp_types::Origin::with_ip_addr("1", 1, from);
    session.connection = Some(sdp_types::Connection::from_ip_addr(from));
    session.attributes.clear();
    for media in &mut session.medias {
        media.port = 0;
        media.num_ports = None;
        media.connections.clear();
        media.attributes.clear();
    }
    let mut out = Vec::new();
    session.write(&mut out).ok()?;
    Some(out)
}

fn stream(
    media: &sdp_types::Media,
    common: Option<&sdp_types::Connection>,
    default_direction: (bool, bool),
) -> Result<Option<MediaStream>, SdpError> {
    if media.port == 0 {
        return Ok(None);
    }
    let connection = media.connections.first().or(common);
    let connection = connection.ok_or(SdpError::NoAddress)?;
    let address = address(&connection.connection_address)?;
    let transport = media.proto.to_ascii_uppercase();
    let is_rtp = transport.contains("RTP/");
    let protocol = if transport.starts_with("TCP") {
        6
    } else if is_rtp || transport.starts_with("UDP") {
        17
    } else {
        return Err(SdpError::UnknownTransport(media.proto.clone()));
    };
    let pairs = if is_rtp {
        media.num_ports.unwrap_or(1).max(1)
    } else {
        1
    };
    let last = pairs
        .checked_mul(2)
        .and_then(|ports| media.port.checked_add(ports - 1));
    if is_rtp {
        last.filter(|_| pairs <= MAX_PAIRS).ok_or(SdpError::Port)?;
    }
    let mux = media.attributes.iter().any(|a| a.attribute == "rtcp-mux");
    let rtcp = media.attributes.iter().find(|a| a.attribute == "rtcp");
    let rtcp = match rtcp.and_then(|a| a.value.as_deref()) {
        Some(text) if is_rtp => Some(rtcp_attribute(text, address)?),
        _ if is_rtp => address.map(|ip| SocketAddr::new(ip, media.port.saturating_add(1))),
        _ => None,
    };
    let is_active = protocol == 6 && media.port == DISCARD;
    let ports = [
        Some(media.port).filter(|_| !is_active),
        rtcp.map(|end| end.port()),
    ];
    // A stream on hold has no address to which packets could go.
    let below = ports.into_iter().flatten().find(|port| *port < MIN_PORT);
    if let Some(port) = below.filter(|_| address.is_some()) {
        return Err(SdpError::SystemPort(port));
    }
    let (sends, receives) = direction(&media.attributes).unwrap_or(default_direction);
    Ok(Some(MediaStream {
        protocol,
        address: address.map(|ip| SocketAddr::new(ip, media.port)),
        pairs,
        rtcp: rtcp.filter(|_| address.is_some()),
        mux,
        sends,
        receives,
    }))
}

/// Parses a host address; `None` for the unspecified address, which means hold (RFC 3264, section
/// 8.4).
fn address(text: &str) -> Result<Option<IpAddr>, SdpError> {
    // A TTL may follow after a slash.
    let first = text.split('/').next().unwrap_or(text);
    let address: IpAddr = first
        .parse()
        .map_err(|_| SdpError::NotAnAddress(text.to_owned()))?;
    if address.is_unspecified() {
        return Ok(None);
    }
    let canonical = address.to_canonical();
    if canonical.is_multicast() {
        return Err(SdpError::Multicast(address));
    }
    if canonical.is_loopback() {
        return Err(SdpError::Loopback(address));
    }
    let forwarded = match canonical {
        IpAddr::V4(v4) => !(v4.is_broadcast() || v4.is_link_local() || v4.octets()[0] == 0),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    if !forwarded {
        return Err(SdpError::NotForwarded(address));
    }
    Ok(Some(address))
}

/// `a=rtcp:53020` or `a=rtcp:53020 IN IP4 192.0.2.1` (RFC 3605).
fn rtcp_attribute(text: &str, common: Option<IpAddr>) -> Result<SocketAddr, SdpError> {
    let malformed = || SdpError::Malformed(format!("a=rtcp:{text}"));
    let mut words = text.split_whitespace();
    let port = words.next().and_then(|word| word.parse::<u16>().ok());
    let port = port.filter(|port| *port != 0).ok_or_else(malformed)?;
    let own = match words.nth(2) {
        Some(word) => address(word)?,
        None => common,
    };
    // On hold, the address has no effect.
    let ip = own.unwrap_or(IpAddr::from([0, 0, 0, 0]));
    Ok(SocketAddr::new(ip, port))
}

/// Returns, as a pair, whether the sender of the attributes sends and whether it receives.
fn direction(attributes: &[sdp_types::Attribute]) -> Option<(bool, bool)> {
    attributes.iter().find_map(|a| match a.attribute.as_str() {
        "sendrecv" => Some((true, true)),
        "sendonly" => Some((true, false)),
        "recvonly" => Some((false, true)),
        "inactive" => Some((false, false)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<SessionDescription, SdpError> {
        let text = format!("v=0\no=a 1 1 IN IP4 10.0.0.1\ns=-\n{lines}");
        SessionDescription::parse(text.replace('\n', "\r\n").as_bytes())
    }

    fn streams(lines: &str) -> Vec<Option<MediaStream>> {
        parse(lines).unwrap().streams
    }

    fn at(text: &str) -> Option<SocketAddr> {
        text.parse().ok()
    }

    #[test]
    fn streams_use_own_or_session_address() {
        let found = streams(
            "c=IN IP4 10.0.0.1\nt=0 0\nm=audio 4000 RTP/AVP 0\nm=video 5000 RTP/SAVPF 96\nc=IN IP6 fd00::7\nm=image 6000 udptl t38\n",
        );
        let [Some(audio), Some(video), Some(image)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (audio.address, audio.rtcp),
            (at("10.0.0.1:4000"), at("10.0.0.1:4001"))
        );
        assert_eq!(
            (video.address, video.rtcp),
            (at("[fd00::7]:5000"), at("[fd00::7]:5001"))
        );
        assert_eq!((image.address, image.rtcp), (at("10.0.0.1:6000"), None));
        assert!(audio.sends && audio.receives && !audio.mux);
    }

    #[test]
    fn rtcp_can_be_elsewhere_or_on_the_same_port() {
        let found = streams(
            "c=IN IP4 10.0.0.1\nt=0 0\nm=audio 4000 RTP/AVP 0\na=rtcp:4500\nm=audio 4100 RTP/AVP 0\na=rtcp:4501 IN IP4 10.0.0.2\nm=audio 4200 RTP/AVP 0\na=rtcp-mux\n",
        );
        let rtcp = |n: usize| found[n].as_ref().unwrap().rtcp;
        assert_eq!(
            [rtcp(0), rtcp(1)],
            [at("10.0.0.1:4500"), at("10.0.0.2:4501")]
        );
        assert!(found[2].as_ref().unwrap().mux);
        assert!(parse("c=IN IP4 10.0.0.1\nt=0 0\nm=audio 4000 RTP/AVP 0\na=rtcp:no\n").is_err());
    }

    #[test]
    fn directions_and_both_forms_of_hold() {
        let found = streams(
            "c=IN IP4 10.0.0.1\nt=0 0\na=sendonly\nm=audio 4000 RTP/AVP 0\nm=audio 4100 RTP/AVP 0\na=inactive\nm=audio 4200 RTP/AVP 0\nc=IN IP4 0.0.0.0\nm=audio 0 RTP/AVP 0\n",
        );
        let way = |n: usize| {
            let media = found[n].as_ref().unwrap();
            (media.sends, media.receives)
        };
        assert_eq!([way(0), way(1)], [(true, false), (false, false)]);
        let held = found[2].as_ref().unwrap();
        assert_eq!((held.address, held.rtcp), (None, None));
        assert_eq!(found[3], None, "rejected");
    }

    /// RFC 3264, section 6
    #[test]
    fn rejected_offer_has_ports_zero() {
        let offer = "v=0\r\no=a 7 7 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\na=sendrecv\r\nm=audio 4000 RTP/AVP 0 8\r\na=rtcp:5000\r\nm=video 4002 RTP/AVP 96\r\nc=IN IP4 10.0.0.2\r\n";
        let from = "192.0.2.9".parse().unwrap();
        let answer = refusal(offer.as_bytes(), from).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains("m=audio 0 RTP/AVP 0 8\r\n"), "{answer}");
        assert!(answer.contains("m=video 0 RTP/AVP 96\r\n"), "{answer}");
        assert!(!answer.contains("10.0.0."), "{answer}");
        let read = SessionDescription::parse(answer.as_bytes()).unwrap();
        assert_eq!(read.streams, [None, None]);
        assert_eq!(refusal(b"?", from), None);
    }

    /// RFC 4145, section 4.1
    #[test]
    fn port_9_of_an_active_end_is_accepted() {
        for m in ["x 9 TCP/MSRP *", "x 1024 TCP/MSRP *"] {
            let found = streams(&format!("c=IN IP4 10.0.0.1\nt=0 0\nm={m}\n"));
            assert!(found[0].is_some());
        }
        // Without an address the port has no effect.
        let held = streams("c=IN IP4 0.0.0.0\nt=0 0\nm=audio 9 UDP/TLS/RTP/SAVPF 96\n");
        assert_eq!(held[0].as_ref().unwrap().address, None);
    }

    #[test]
    fn unusable_descriptions_are_errors() {
        let one = |c: &str, m: &str| parse(&format!("{c}t=0 0\nm={m}\n")).unwrap_err();
        let audio = "audio 4000 RTP/AVP 0";
        assert_eq!(one("", audio), SdpError::NoAddress);
        let name = one("c=IN IP4 host.example.net\n", audio);
        assert_eq!(name, SdpError::NotAnAddress("host.example.net".to_owned()));
        let group = one("c=IN IP4 224.2.1.1/127\n", audio);
        assert!(matches!(group, SdpError::Multicast(_)));
        for own in ["127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            let refused = address(own).unwrap_err();
            assert!(matches!(refused, SdpError::Loopback(_)), "{own}");
            assert!(refused.to_string().contains("is a loopback address"));
        }
        for never in ["255.255.255.255", "169.254.169.254", "0.0.0.1", "fe80::1"] {
            let refused = address(never).unwrap_err();
            assert!(matches!(refused, SdpError::NotForwarded(_)), "{never}");
        }
        let host = "c=IN IP4 10.0.0.1\n";
        let ssh = one(host, "audio 22 RTP/AVP 0");
        assert_eq!(ssh, SdpError::SystemPort(22));
        assert_eq!(one(host, "x 1023 TCP/MSRP *"), SdpError::SystemPort(1023));
        let rtcp = parse(&format!("{host}t=0 0\nm={audio}\na=rtcp:53\n"));
        assert_eq!(rtcp, Err(SdpError::SystemPort(53)));
        let strange = one(host, "audio 4000 XYZ 0");
        assert!(matches!(strange, SdpError::UnknownTransport(_)));
        assert_eq!(one(host, "audio 65535 RTP/AVP 0"), SdpError::Port);
        for pairs in [17, 40000] {
            let text = format!("audio 4000/{pairs} RTP/AVP 0");
            assert_eq!(one(host, &text), SdpError::Port);
        }
        let many = "m=audio 4000 RTP/AVP 0\n".repeat(17);
        let many = parse(&format!("{host}t=0 0\n{many}")).unwrap_err();
        assert_eq!(many, SdpError::TooMany(17));
        let long = parse(&format!("{host}t=0 0\n{}", "a=x\n".repeat(4000))).unwrap_err();
        assert!(matches!(long, SdpError::TooLong(20_000..)), "{long}");
        assert!(matches!(
            SessionDescription::parse(b"\x00\xff"),
            Err(SdpError::Malformed(_))
        ));
    }
}
