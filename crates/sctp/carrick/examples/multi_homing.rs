//! Multi-homing: a transfer over two paths continues when the address of the first one is lost.
//!
//! `cargo run -p carrick --example multi_homing`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick::{AssociationConfig, Config, ConnectOptions, Endpoint, SendOptions};

const MESSAGES: u32 = 200;

fn bind(addresses: [IpAddr; 2]) -> Result<Endpoint, carrick::BindError> {
    let association = AssociationConfig::modern().with(|c| {
        c.timers.rto_initial = Duration::from_millis(100);
        c.timers.rto_min = Duration::from_millis(50);
        c.paths.path_max_retrans = 1;
    });
    let config = Config::udp(addresses).encapsulation_port(0);
    Endpoint::bind(config.association(association))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = |n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n));
    let server = bind([address(3), address(4)])?;
    let client = bind([address(1), address(2)])?;
    let receiver = tokio::spawn({
        let server = server.clone();
        async move {
            let mut received = 0;
            if let Some(incoming) = server.accept().await {
                let mut association = incoming.accept();
                while let Ok(Some(_)) = association.recv().await {
                    received += 1;
                }
            }
            received
        }
    });
    let udp_port = server.encapsulation_port().unwrap_or_default();
    let options = ConnectOptions::new().encapsulation_port(udp_port);
    let peer = ([address(3), address(4)], server.port());
    let association = client.connect_with(peer, options).await?;
    for number in 0..MESSAGES {
        if number == MESSAGES / 2 {
            client.local_address_removed(address(1));
            println!("lost {}", address(1));
        }
        let message = number.to_be_bytes().to_vec();
        association.send(message, SendOptions::default()).await?;
    }
    association.shutdown().await?;
    println!("received {} of {MESSAGES} messages", receiver.await?);
    for report in [client.close().await, server.close().await] {
        assert!(report.is_empty(), "{report}");
    }
    Ok(())
}
