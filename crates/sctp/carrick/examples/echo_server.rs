//! Echo server: sends each message back on its stream.
//!
//! `cargo run -p carrick --example echo_server [UDP-PORT]`, then `echo_client`. Ends with Ctrl-C.

use carrick::{Association, Config, Endpoint, SendOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let udp_port = std::env::args()
        .nth(1)
        .map_or(Ok(9899), |port| port.parse())?;
    let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
    let config = Config::udp(loopback).port(7).encapsulation_port(udp_port);
    let endpoint = Endpoint::bind(config)?;
    println!("listening in UDP port {:?}", endpoint.encapsulation_port());
    let serving = async {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(echo(incoming.accept()));
        }
    };
    tokio::select! {
        () = serving => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    let report = endpoint.close().await;
    if !report.is_empty() {
        eprintln!("{report}");
    }
    Ok(())
}

async fn echo(mut association: Association) {
    while let Ok(Some(message)) = association.recv().await {
        let options = SendOptions::on_stream(message.stream).ppid(message.ppid);
        if association.send(message.payload, options).await.is_err() {
            break;
        }
    }
}
