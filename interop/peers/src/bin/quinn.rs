//! Peer program of crate `quinn`: QUIC with TLS 1.3. The messages of a transfer and of round trips are written to one
//! stream, whose boundaries are not those of the messages.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use carrick_peers::{
    Failure, Verb, end_with_input, print_about, print_delivered, print_port, print_round_trips,
    verb,
};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, IdleTimeout, ServerConfig, TransportConfig};
use rustls::RootCertStore;

const NAME: &str = "localhost";
/// First byte of a stream: what the server does with the rest.
const COUNT: u8 = 0;
const ECHO: u8 = 1;

/// Packets of up to 1500 bytes, as those of the other stacks, without a search for more.
fn transport() -> Result<Arc<TransportConfig>, Failure> {
    let mut transport = TransportConfig::default();
    transport.initial_mtu(1452).mtu_discovery_config(None);
    transport.max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(10))?));
    Ok(transport.into())
}

/// Returns a throw-away certificate and its key.
fn certificate() -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((made.cert.into(), key))
}

async fn serve() -> Result<(), Failure> {
    let (certificate, key) = certificate()?;
    // The client trusts the certificate that it reads from this file, whose name has the port.
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    config.transport_config(transport()?);
    let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?;
    let port = endpoint.local_addr()?.port();
    std::fs::write(certificate_file(port), &certificate)?;
    print_port(port);
    end_with_input();
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    std::fs::remove_file(certificate_file(port))?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut kind = [0];
    receive.read_exact(&mut kind).await?;
    if kind[0] == ECHO {
        let mut buffer = vec![0; 1 << 16];
        while let Some(length) = receive.read(&mut buffer).await? {
            send.write_all(&buffer[..length]).await?;
        }
    } else {
        let mut received: u64 = 0;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
            received += chunk.bytes.len() as u64;
        }
        send.write_all(&received.to_be_bytes()).await?;
    }
    send.finish()?;
    connection.closed().await;
    Ok(())
}

fn certificate_file(port: u16) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("carrick-peers-quinn-{port}.der"))
}

async fn connect(address: SocketAddr) -> Result<(Endpoint, Connection), Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(std::fs::read(certificate_file(address.port()))?.into())?;
    let crypto = rustls::ClientConfig::builder_with_provider(
        rustls::crypto::ring::default_provider().into(),
    )
    .with_protocol_versions(&[&rustls::version::TLS13])?
    .with_root_certificates(roots)
    .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(transport()?);
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address, NAME)?.await?;
    Ok((endpoint, connection))
}

async fn send(address: SocketAddr, size: usize, time: Duration) -> Result<(), Failure> {
    let (endpoint, connection) = connect(address).await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    let message = vec![0; size];
    send.write_all(&[COUNT]).await?;
    let begin = Instant::now();
    while begin.elapsed() < time {
        send.write_all(&message).await?;
    }
    send.finish()?;
    let mut received = [0; 8];
    receive.read_exact(&mut received).await?;
    print_delivered(u64::from_be_bytes(received), begin.elapsed());
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn ping(address: SocketAddr, size: usize, count: usize) -> Result<(), Failure> {
    let (endpoint, connection) = connect(address).await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&[ECHO]).await?;
    let mut message = vec![0; size];
    let mut times = Vec::with_capacity(count);
    // The first tenth is not counted.
    for n in 0..count + count / 10 {
        let begin = Instant::now();
        send.write_all(&message).await?;
        receive.read_exact(&mut message).await?;
        if n >= count / 10 {
            times.push(begin.elapsed());
        }
    }
    print_round_trips(times);
    // The server ends its stream when it has read this one.
    send.finish()?;
    receive.read_to_end(0).await?;
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    match verb()? {
        Verb::About => print_about("quinn", &["send", "ping"]),
        Verb::Serve => return tokio::spawn(serve()).await?,
        Verb::Send {
            address,
            size,
            time,
        } => return tokio::spawn(send(address, size, time)).await?,
        Verb::Ping {
            address,
            size,
            count,
        } => return tokio::spawn(ping(address, size, count)).await?,
        _ => return Err("quinn has no such verb: see interop/peers/README.md".into()),
    }
    Ok(())
}
