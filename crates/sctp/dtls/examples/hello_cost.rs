//! Cost of a `ClientHello` without a cookie from an address that never replies: the time that a server needs
//! for it, and the bytes that it sends. `docs/security.md` has the figures.

use std::net::IpAddr;
use std::time::Instant;

use carrick_dtls::{Certificate, Dtls, DtlsConfig, DtlsLayer, Trust, Versions};
use carrick_proto::sessions::{PacketSession as _, SessionFactory as _, SessionLayerConfig};
use carrick_proto::{Ecn, Endpoint, EndpointConfig, Route, Time};

const HELLOS: u32 = 20_000;

/// Length of the headers of a `ClientHello` up to its random number (RFC 6347, sections 4.1 and 4.2.2).
const RANDOM: usize = 13 + 12 + 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{HELLOS} ClientHellos, each of another address");
    println!("version  bytes  sent  datagrams  us each");
    for versions in [Versions::Dtls12, Versions::Dtls13] {
        let mut client = Dtls::new(config(versions)?)?.connect(Time::ZERO, Trust::Anyone);
        let mut hello = Vec::new();
        client.poll_datagram(Time::ZERO, &mut hello);

        let here = IpAddr::from([192, 0, 2, 1]);
        let mut endpoint = EndpointConfig::new(5000, vec![here], [1; 32]);
        let server = Dtls::new(config(Versions::Both)?)?;
        let mut layer = DtlsLayer::new(server, SessionLayerConfig::default(), &mut endpoint);
        let mut endpoint = Endpoint::new(endpoint)?;
        let (mut datagrams, mut sent) = (0, 0);
        let mut out = Vec::new();
        let start = Instant::now();
        for n in 0..HELLOS {
            hello[RANDOM..RANDOM + 4].copy_from_slice(&n.to_be_bytes());
            let [_, a, b, c] = n.to_be_bytes();
            let route = Route {
                local: Some(here),
                remote: IpAddr::from([198, a, b, c]),
                encapsulation: Some(4000),
                ecn: Ecn::NotCapable,
            };
            let now = Time::from_millis(1000);
            layer.handle_datagram(now, &mut endpoint, &route, &hello);
            out.clear();
            while layer.poll_transmit(now, &mut endpoint, &mut out).is_some() {
                datagrams += 1;
                sent += out.len();
                out.clear();
            }
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(HELLOS);
        let len = hello.len();
        let sent = sent as f64 / f64::from(HELLOS);
        println!("{versions:?}  {len:5}  {sent:4.0}  {datagrams:9}  {each:7.1}");
    }
    Ok(())
}

fn config(versions: Versions) -> Result<DtlsConfig, Box<dyn std::error::Error>> {
    Ok(DtlsConfig {
        versions,
        ..DtlsConfig::new(Certificate::generate()?, Trust::Anyone)
    })
}
