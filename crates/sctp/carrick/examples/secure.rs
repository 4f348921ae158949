//! Encryption of all paths by the DTLS chunk: both ends know the fingerprint of the other one's certificate.
//!
//! `cargo run -p carrick --features dtls --example secure`.

use carrick::dtls::{Certificate, Fingerprint};
use carrick::dtls_chunk::{Identity, Trust};
use carrick::{Config, ConnectOptions, Endpoint, SendOptions};

fn bind(own: &Certificate, peer: Fingerprint) -> Result<Endpoint, Box<dyn std::error::Error>> {
    let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
    let identity = Identity::try_from(own.clone())?;
    let config = Config::udp(loopback).encapsulation_port(0);
    Ok(Endpoint::bind(
        config.secure(identity, Trust::fingerprint(peer))?,
    )?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = (Certificate::generate()?, Certificate::generate()?);
    let server = bind(&theirs, ours.fingerprint())?;
    let client = bind(&ours, theirs.fingerprint())?;
    let options =
        ConnectOptions::new().encapsulation_port(server.encapsulation_port().unwrap_or_default());
    let peer = ("127.0.0.1", server.port());
    let (sender, incoming) = tokio::join!(client.connect_with(peer, options), server.accept());
    let (sender, mut receiver) = (sender?, incoming.ok_or("no association")?.accept());
    sender.send("secret", SendOptions::default()).await?;
    let message = receiver.recv().await?.ok_or("no message")?;
    println!("received {} bytes", message.payload.len());
    sender.control().renew_keys().await?;
    sender
        .send("with other keys", SendOptions::default())
        .await?;
    let message = receiver.recv().await?.ok_or("no message")?;
    println!("received {} bytes", message.payload.len());
    let packets = sender
        .control()
        .stats()
        .await?
        .protection
        .ok_or("in the clear")?;
    println!("{} packets were encrypted", packets.sealed);
    drop((sender, receiver));
    for report in [client.close().await, server.close().await] {
        assert!(report.is_empty(), "{report}");
    }
    Ok(())
}
