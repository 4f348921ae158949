//! SCTP over DTLS (RFC 8261): both ends know the fingerprint of the other one's certificate.
//!
//! `cargo run -p carrick --features dtls --example dtls`.

use carrick::dtls::{Certificate, DtlsConfig, Fingerprint, Trust};
use carrick::{Config, ConnectOptions, Endpoint, SendOptions};

fn bind(own: &Certificate, peer: Fingerprint) -> Result<Endpoint, Box<dyn std::error::Error>> {
    let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
    let dtls = DtlsConfig::new(own.clone(), Trust::fingerprint(peer));
    let config = Config::udp(loopback).encapsulation_port(0).dtls(dtls);
    Ok(Endpoint::bind(config)?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = (Certificate::generate()?, Certificate::generate()?);
    let server = bind(&theirs, ours.fingerprint())?;
    let client = bind(&ours, theirs.fingerprint())?;
    let udp_port = server.encapsulation_port().unwrap_or_default();
    let options = ConnectOptions::new().encapsulation_port(udp_port);
    let peer = ("127.0.0.1", server.port());
    let (sender, incoming) = tokio::join!(client.connect_with(peer, options), server.accept());
    let (sender, mut receiver) = (sender?, incoming.ok_or("no association")?.accept());
    println!(
        "the client's certificate: {:?}",
        receiver.control().peer_fingerprint()
    );
    sender.send("secret", SendOptions::default()).await?;
    let message = receiver.recv().await?.ok_or("no message")?;
    println!("received {} bytes", message.payload.len());
    drop((sender, receiver));
    for report in [client.close().await, server.close().await] {
        assert!(report.is_empty(), "{report}");
    }
    Ok(())
}
