//! Partial reliability (RFC 3758): messages that are too old are abandoned instead of retransmitted.
//!
//! `cargo run -p carrick --example partial_reliability`. The receiver does not read at first, so that its
//! window closes and messages with a lifetime expire at the sender.

use std::time::Duration;

use carrick::{AssociationConfig, Config, ConnectOptions, Endpoint, Reliability, SendOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
    let mut config = Config::udp(loopback).encapsulation_port(0);
    config.receive_queue_messages = 1;
    config.association = AssociationConfig::modern().with(|c| {
        c.buffers.receive_buffer = 10_000;
        c.buffers.max_receive_buffer = None;
    });
    let (server, client) = (Endpoint::bind(config.clone())?, Endpoint::bind(config)?);
    let udp_port = server.encapsulation_port().unwrap_or_default();
    let options = ConnectOptions::new().encapsulation_port(udp_port);
    let peer = (loopback, server.port());
    let (sender, incoming) = tokio::join!(client.connect_with(peer, options), server.accept());
    let (sender, mut receiver) = (sender?, incoming.ok_or("no association")?.accept());

    // A sample of a sensor is of no use after 50 ms; the last message has to arrive.
    let sample = SendOptions::on_stream(1)
        .unordered()
        .lifetime(Duration::from_millis(50))
        .reliability(Reliability::Timed(Duration::from_millis(50)));
    for _ in 0..100 {
        sender.send(vec![0; 1000], sample).await?;
    }
    sender.send("end", SendOptions::default()).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;

    let reading = async {
        let mut samples = 0;
        while let Some(message) = receiver.recv().await? {
            samples += usize::from(message.stream.0 == 1);
        }
        Ok::<_, carrick::RecvError>(samples)
    };
    let (ended, samples) = tokio::join!(sender.shutdown(), reading);
    ended?;
    println!("received {} of 100 samples", samples?);
    for report in [client.close().await, server.close().await] {
        assert!(report.is_empty(), "{report}");
    }
    Ok(())
}
