//! Notifications: prints the events of an association until it ends.
//!
//! `cargo run -p carrick --example events`.

use carrick::{Config, ConnectOptions, Endpoint, Notification, SendOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
    let config = Config::udp(loopback).encapsulation_port(0);
    let (server, client) = (Endpoint::bind(config.clone())?, Endpoint::bind(config)?);
    let udp_port = server.encapsulation_port().unwrap_or_default();
    let options = ConnectOptions::new().encapsulation_port(udp_port);
    let peer = (loopback, server.port());
    let (sender, incoming) = tokio::join!(client.connect_with(peer, options), server.accept());
    let (sender, mut receiver) = (sender?, incoming.ok_or("no association")?.accept());
    let mut events = receiver.take_events().ok_or("taken before")?;
    let printing = tokio::spawn(async move {
        while let Some(notification) = events.next().await {
            match notification {
                Notification::Event(event) => println!("{event:?}"),
                Notification::Lagged(count) => println!("{count} notifications discarded"),
            }
        }
    });
    sender.send("hello", SendOptions::default()).await?;
    let (ended, message) = tokio::join!(sender.shutdown(), receiver.recv());
    ended?;
    println!("received {} bytes", message?.map_or(0, |m| m.payload.len()));
    printing.await?;
    for report in [client.close().await, server.close().await] {
        assert!(report.is_empty(), "{report}");
    }
    Ok(())
}
