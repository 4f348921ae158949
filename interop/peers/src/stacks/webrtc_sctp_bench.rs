//! Measurements of crate `webrtc-sctp`: its association and its user are tasks on one thread, on a socket of tokio.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::runtime::Builder;
use tokio::time::sleep;
use webrtc_sctp::association::{Association, Config};
use webrtc_sctp::chunk::chunk_payload_data::PayloadProtocolIdentifier;
use webrtc_sctp::stream::Stream;

use crate::stacks::WEBRTC_PORT;
use crate::{
    BUFFER, Failure, MAX_MESSAGE, MTU, SEND_LIMIT, Verb, end_with_input, print_about,
    print_delivered, print_port, print_round_trips,
};

const BINARY: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;
/// First byte of a message that the server returns.
const ECHO: u8 = 1;
/// Interval at which a full send buffer is looked at.
const INTERVAL: Duration = Duration::from_millis(1);

/// Runs a measurement or its server.
pub(crate) fn run(name: &str) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    match crate::verb()? {
        Verb::About => print_about(name, &["send", "ping"]),
        Verb::Serve => runtime.block_on(serve())?,
        Verb::Send {
            address,
            size,
            time,
        } => runtime.block_on(send(address, size, time))?,
        Verb::Ping {
            address,
            size,
            count,
        } => runtime.block_on(ping(address, size, count))?,
        _ => return Err("its tasks and timers need a socket and the wall clock".into()),
    }
    Ok(())
}

fn config(socket: UdpSocket) -> Config {
    Config {
        net_conn: Arc::new(socket),
        max_receive_buffer_size: BUFFER as u32,
        max_message_size: MAX_MESSAGE as u32,
        mtu: MTU as u32,
        name: "peer".to_owned(),
        remote_port: WEBRTC_PORT,
        local_port: WEBRTC_PORT,
    }
}

async fn serve() -> Result<(), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    print_port(socket.local_addr()?.port());
    end_with_input();
    // The address of the client is known with its first packet.
    let (_, client) = socket.peek_from(&mut [0]).await?;
    socket.connect(client).await?;
    let association = Association::server(config(socket)).await?;
    let stream = association.accept_stream().await.ok_or("no stream")?;
    let mut buffer = vec![0; MAX_MESSAGE];
    while let Ok((length, _)) = stream.read_sctp(&mut buffer).await {
        if length == 0 {
            break;
        }
        if buffer[0] == ECHO {
            let message = Bytes::copy_from_slice(&buffer[..length]);
            stream.write_sctp(&message, BINARY).await?;
        }
    }
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<(Association, Arc<Stream>), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(address).await?;
    let association = Association::client(config(socket)).await?;
    let stream = association.open_stream(0, BINARY).await?;
    Ok((association, stream))
}

async fn send(address: SocketAddr, size: usize, time: Duration) -> Result<(), Failure> {
    let (association, stream) = connect(address).await?;
    let message = Bytes::from(vec![0; size]);
    let begin = Instant::now();
    let mut bytes = 0;
    while begin.elapsed() < time {
        while stream.buffered_amount() > SEND_LIMIT {
            sleep(INTERVAL).await;
        }
        stream.write_sctp(&message, BINARY).await?;
        bytes += size as u64;
    }
    while stream.buffered_amount() > 0 {
        sleep(INTERVAL).await;
    }
    print_delivered(bytes, begin.elapsed());
    Ok(association.shutdown().await?)
}

async fn ping(address: SocketAddr, size: usize, count: usize) -> Result<(), Failure> {
    let (association, stream) = connect(address).await?;
    let mut message = vec![0; size];
    message[0] = ECHO;
    let message = Bytes::from(message);
    let mut buffer = vec![0; MAX_MESSAGE];
    let mut times = Vec::with_capacity(count);
    for n in 0..count + count / 10 {
        let begin = Instant::now();
        stream.write_sctp(&message, BINARY).await?;
        stream.read_sctp(&mut buffer).await?;
        if n >= count / 10 {
            times.push(begin.elapsed());
        }
    }
    print_round_trips(times);
    Ok(association.shutdown().await?)
}
