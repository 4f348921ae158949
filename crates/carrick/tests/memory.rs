//! What the handle of an idle association costs, with everything that is kept of it.

use carrick::{Association, Config, ConnectOptions, Endpoint};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The floor that the project set itself: 4 KiB per idle association end.
const LIMIT: usize = 4096;

/// One end of an association has a handle, the other one too; their endpoints are shared.
#[tokio::test]
async fn an_idle_association_end_with_its_handle_costs_at_most_4_kib() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let address = "127.0.0.1".parse().unwrap();
    let bind = || Endpoint::bind(Config::udp([address]).encapsulation_port(0)).unwrap();
    let server = bind();
    let clients: Vec<Endpoint> = (0..50).map(|_| bind()).collect();
    let options = ConnectOptions::to_port(server.port())
        .encapsulation_port(server.encapsulation_port().unwrap());
    let mut ends: Vec<Association> = Vec::with_capacity(2 * clients.len());
    // What an endpoint gets for its first association stays with it.
    for client in &clients {
        let first = client.connect(&[address], options.clone()).await.unwrap();
        drop((first, server.accept().await));
    }
    for endpoint in clients.iter().chain([&server]) {
        while endpoint.associations().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    }
    let before = dhat::HeapStats::get().curr_bytes;
    for client in &clients {
        ends.push(client.connect(&[address], options.clone()).await.unwrap());
        ends.push(server.accept().await.unwrap());
    }
    let each = (dhat::HeapStats::get().curr_bytes - before) / ends.len();
    println!("{each} bytes per idle association end with its handle");
    assert!(each <= LIMIT, "{each} bytes");
}
