//! Echo client: sends messages on several streams and prints the replies.
//!
//! `cargo run -p carrick --example echo_client [UDP-PORT]`, with `echo_server` running.

use carrick::{Config, ConnectOptions, Endpoint, SendOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let udp_port = std::env::args()
        .nth(1)
        .map_or(Ok(9899), |port| port.parse())?;
    let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
    let endpoint = Endpoint::bind(Config::udp(loopback).encapsulation_port(0))?;
    let options = ConnectOptions::new().encapsulation_port(udp_port);
    let mut association = endpoint.connect_with("127.0.0.1:7", options).await?;
    for stream in 0..3 {
        let options = SendOptions::on_stream(stream);
        association
            .send(format!("hello on stream {stream}"), options)
            .await?;
    }
    for _ in 0..3 {
        let Some(message) = association.recv().await? else {
            break;
        };
        let text = message.payload.into_bytes();
        println!(
            "stream {}: {}",
            message.stream.0,
            String::from_utf8_lossy(&text)
        );
    }
    let report = endpoint.close().await;
    if !report.is_empty() {
        return Err(report.to_string().into());
    }
    Ok(())
}
