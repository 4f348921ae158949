//! Round trips of small messages between two processes:
//!
//! ```text
//! roundtrip server PORT [DAEMON]
//! roundtrip client PORT SIZE COUNT [DAEMON]
//! ```
//!
//! On UDP ports that the system chooses, or in that of the daemon on a control socket. The server prints its
//! UDP port, which the client reads from its input; the client prints the median and the 99th percentile in
//! microseconds. `scripts/benchmark_sockets.py` runs both.

use std::error::Error;
use std::io::stdin;
use std::time::Instant;

use carrick::{AssociationConfig, Bytes, Config, ConnectOptions, Endpoint, SendOptions};

type Failure = Box<dyn Error + Send + Sync>;

fn config(daemon: Option<String>) -> Config {
    let association = AssociationConfig::modern().with(|c| c.transmission.nagle = false);
    let config = Config::udp([[127, 0, 0, 1].into()]).association(association);
    match daemon {
        #[cfg(target_os = "linux")]
        Some(daemon) => config.daemon(daemon),
        _ => config.encapsulation_port(0),
    }
}

async fn serve(port: u16, daemon: Option<String>) -> Result<(), Failure> {
    let endpoint = Endpoint::bind(config(daemon).port(port))?;
    println!("{}", endpoint.encapsulation_port().ok_or("no UDP port")?);
    let mut association = endpoint.accept().await.ok_or("closed")?.accept();
    while let Some(message) = association.recv().await? {
        let data = message.payload.into_bytes();
        association.send(data, SendOptions::default()).await?;
    }
    let report = endpoint.close().await;
    if !report.is_empty() {
        return Err(report.to_string().into());
    }
    Ok(())
}

async fn measure(
    port: u16,
    (size, count): (usize, usize),
    daemon: Option<String>,
) -> Result<(), Failure> {
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    let options = ConnectOptions::new().encapsulation_port(line.trim().parse()?);
    let endpoint = Endpoint::bind(config(daemon))?;
    let to = ("127.0.0.1", port);
    let mut association = endpoint.connect_with(to, options).await?;
    let message = Bytes::from(vec![0; size]);
    let mut times = Vec::with_capacity(count);
    // The first tenth is not counted.
    for n in 0..count + count / 10 {
        let begin = Instant::now();
        association
            .send(message.clone(), SendOptions::default())
            .await?;
        association.recv().await?.ok_or("ended")?;
        if n >= count / 10 {
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    let (median, late) = (times[count / 2], times[count * 99 / 100]);
    println!("{{\"p50_us\":{median:.1},\"p99_us\":{late:.1}}}");
    association.shutdown().await?;
    let report = endpoint.close().await;
    if !report.is_empty() {
        return Err(report.to_string().into());
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let mut next = || {
        words
            .next()
            .ok_or("arguments: server PORT [DAEMON] or client PORT SIZE COUNT [DAEMON]")
    };
    let role = next()?;
    let port = next()?.parse()?;
    // In a task: before it polls this function again, the runtime would ask the system for events.
    if role == "server" {
        return tokio::spawn(serve(port, next().ok())).await?;
    }
    let extent = (next()?.parse()?, next()?.parse()?);
    tokio::spawn(measure(port, extent, next().ok())).await?
}
