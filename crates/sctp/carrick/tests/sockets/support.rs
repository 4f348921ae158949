//! Endpoints on loopback, and time limits against tests that hang.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use carrick::{Association, AssociationConfig, Config, ConnectOptions, Endpoint, SendOptions};

/// Time limit, far longer than any step of a test.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(result) = tokio::time::timeout(LIMIT, future).await else {
        panic!("{what}: still not done after {LIMIT:?}");
    };
    result
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Configuration with the number of shards of the environment variable `CARRICK_SHARDS`, so that all tests
/// can run with several.
pub(crate) fn config(addresses: &[&str]) -> Config {
    let shards = std::env::var("CARRICK_SHARDS").map(|count| count.parse().unwrap());
    Config::udp(addresses.iter().map(|a| ip(a)))
        .encapsulation_port(0)
        .shards(shards.unwrap_or(1))
}

pub(crate) fn endpoint(addresses: &[&str]) -> Endpoint {
    Endpoint::bind(config(addresses)).unwrap()
}

/// Parameters with timers short enough for tests.
pub(crate) fn quick() -> AssociationConfig {
    AssociationConfig::modern().with(|c| {
        c.timers.rto_initial = Duration::from_millis(100);
        c.timers.rto_min = Duration::from_millis(50);
        c.timers.rto_max = Duration::from_millis(400);
        c.paths.path_max_retrans = 2;
        c.paths.association_max_retrans = 4;
        c.timers.max_init_retransmits = 3;
        c.paths.hb_interval = Duration::from_millis(100);
    })
}

/// Options to connect to an endpoint of this process.
pub(crate) fn to(server: &Endpoint) -> ConnectOptions {
    let options = ConnectOptions::new();
    match server.encapsulation_port() {
        Some(port) => options.encapsulation_port(port),
        None => options,
    }
}

/// Sets up an association and returns both ends.
pub(crate) async fn associate(
    client: &Endpoint,
    server: &Endpoint,
    addresses: &[&str],
) -> (Association, Association) {
    let addresses: Vec<IpAddr> = addresses.iter().map(|a| ip(a)).collect();
    let (connected, accepted) = soon("set-up", async {
        tokio::join!(
            client.connect_with((&addresses, server.port()), to(server)),
            server.accept()
        )
    })
    .await;
    (connected.unwrap(), accepted.unwrap().accept())
}

/// Returns two endpoints on 127.0.0.1 with an association.
pub(crate) async fn pair() -> (Endpoint, Endpoint, Association, Association) {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let (a, b) = associate(&client, &server, &["127.0.0.1"]).await;
    (client, server, a, b)
}

/// Returns two endpoints with this configuration and an association.
pub(crate) async fn pair_of(config: Config) -> (Endpoint, Endpoint, Association, Association) {
    let client = Endpoint::bind(config.clone()).unwrap();
    let server = Endpoint::bind(config).unwrap();
    let (a, b) = associate(&client, &server, &["127.0.0.1"]).await;
    (client, server, a, b)
}

/// Configuration with small queues.
pub(crate) fn small() -> Config {
    let mut small = config(&["127.0.0.1"]);
    small.send_queue = 8000;
    small.association.buffers.send_buffer = 20_000;
    small.association.buffers.receive_buffer = 20_000;
    small
}

/// Waits until the endpoint has no association.
pub(crate) async fn gone(endpoint: &Endpoint) {
    soon("end of the associations", async {
        while endpoint.associations().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Returns the content of the message `number` with this size.
pub(crate) fn content(number: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (number * 31 + at * 7) as u8).collect()
}

pub(crate) fn on(stream: u16) -> SendOptions {
    SendOptions::on_stream(stream)
}
