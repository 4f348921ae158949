//! Round trips of crate `carrick`: one task at each end, as `examples/roundtrip.rs` of the crate.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use carrick::{AssociationConfig, Bytes, Config, ConnectOptions, Endpoint, SendOptions};

use super::{Listening, end_with_input, print, print_round_trips};
use crate::failure::Failure;
use crate::runtime;

/// SCTP port of the server.
const PORT: u16 = 5202;

fn config() -> Config {
    let association = AssociationConfig::modern().with(|c| c.transmission.nagle = false);
    Config::udp([Ipv4Addr::LOCALHOST.into()])
        .association(association)
        .encapsulation_port(0)
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::Run(error.to_string())
}

/// Runs the work as a task: before it polls the future of `block_on`, the runtime asks the system for events.
fn run(work: impl Future<Output = Result<(), Failure>> + Send + 'static) -> Result<(), Failure> {
    runtime::run(async {
        let task = tokio::spawn(work);
        runtime::until_signal(async { task.await.map_err(failed)? }).await
    })
}

pub(super) fn serve() -> Result<(), Failure> {
    end_with_input();
    run(async {
        let endpoint = Endpoint::bind(config().port(PORT)).map_err(failed)?;
        let port = endpoint.encapsulation_port().unwrap_or_default();
        print(&Listening { port })?;
        let closed = || Failure::Run("the endpoint has closed".into());
        let mut association = endpoint.accept().await.ok_or_else(closed)?.accept();
        while let Some(message) = association.recv().await.map_err(failed)? {
            let data = message.payload.into_bytes();
            association
                .send(data, SendOptions::default())
                .await
                .map_err(failed)?;
        }
        close(&endpoint).await
    })
}

/// Closes the endpoint; messages that were not delivered are an error.
async fn close(endpoint: &Endpoint) -> Result<(), Failure> {
    let report = endpoint.close().await;
    if report.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(report.to_string()))
}

pub(super) fn ping(address: SocketAddr, size: usize, count: u32) -> Result<(), Failure> {
    run(async move {
        let options = ConnectOptions::new().encapsulation_port(address.port());
        let endpoint = Endpoint::bind(config()).map_err(failed)?;
        let to = (address.ip().to_string(), PORT);
        let to = (to.0.as_str(), to.1);
        let mut association = endpoint.connect_with(to, options).await.map_err(failed)?;
        let message = Bytes::from(vec![0; size]);
        let mut times = Vec::with_capacity(count as usize);
        for n in 0..count + count / 10 {
            let begin = Instant::now();
            let sent = association.send(message.clone(), SendOptions::default());
            sent.await.map_err(failed)?;
            let ended = || Failure::Run("the server has ended the association".into());
            association
                .recv()
                .await
                .map_err(failed)?
                .ok_or_else(ended)?;
            if n >= count / 10 {
                times.push(begin.elapsed());
            }
        }
        print_round_trips(times)?;
        association.shutdown().await.map_err(failed)?;
        close(&endpoint).await
    })
}
