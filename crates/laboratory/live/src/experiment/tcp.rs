//! Program over the kernel's TCP, which carries the messages as a stream of bytes.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf, Bytes, BytesMut};
use carrick_lab::live::{ReadMode, Stack};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::multipath::{self, Subflows};
use super::participant::{MAX_WAIT, Participant, ParticipantError, ParticipantResult, RunState};
use super::timer::PreciseTimer;

/// Size of the read buffer, in bytes.
const READ_BUFFER: usize = 1 << 16;

pub(crate) async fn run(
    mut participant: Participant,
    state: &RunState,
) -> Result<ParticipantResult, ParticipantError> {
    let mut paths = match participant.stack {
        Stack::Tcp {
            multipath: Some(own),
            ..
        } => Some(Subflows::prepare(&participant, own)?),
        _ => None,
    };
    // The listener accepts the further subflows of Multipath TCP.
    let (stream, _listener) = connect(&participant, state).await?;
    stream.set_nodelay(true)?;
    participant.start(state, 1).await?;
    let ended = run_program(&mut participant, state, &stream, &mut paths).await;
    participant.accept_loss(state, ended)?;
    participant.finish(state).await?;
    Ok(ParticipantResult::new(participant.program))
}

/// Carries messages between the program and the connection until the run is over.
async fn run_program(
    participant: &mut Participant,
    state: &RunState,
    stream: &TcpStream,
    paths: &mut Option<Subflows>,
) -> Result<(), ParticipantError> {
    let lost = |error: io::Error| ParticipantError::Lost(error.to_string());
    let timer = PreciseTimer::new()?;
    let mut waiting: VecDeque<Bytes> = VecDeque::new();
    while !participant.is_over(state)? {
        if let Some(paths) = paths.as_mut().filter(|_| participant.roams) {
            paths.follow_addresses()?;
        }
        loop {
            write(stream, &mut waiting).map_err(lost)?;
            // The program is asked for more only when the kernel has accepted the previous message.
            let more = waiting
                .is_empty()
                .then(|| participant.program.poll_transmit(state.now()));
            let Some(out) = more.flatten() else {
                break;
            };
            waiting.push_back(out.payload);
        }
        let reads = participant.program.reading() != ReadMode::Nothing;
        tokio::select! {
            ready = stream.readable(), if reads => {
                ready?;
                if read(participant, state, stream).map_err(lost)? == ReadState::Closed {
                    return Err(ParticipantError::Lost("the connection was closed".into()));
                }
            }
            ready = stream.writable(), if !waiting.is_empty() => ready?,
            slept = participant.sleep(state, &timer) => slept?,
        }
        participant.handle_timeout(state);
    }
    Ok(())
}

/// Writes the waiting messages until the kernel's send buffer is full.
fn write(stream: &TcpStream, waiting: &mut VecDeque<Bytes>) -> io::Result<()> {
    while let Some(first) = waiting.front_mut() {
        match stream.try_write(first) {
            Ok(written) => first.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        if first.is_empty() {
            waiting.pop_front();
        }
    }
    Ok(())
}

/// State of the connection after a read.
#[derive(PartialEq, Eq)]
enum ReadState {
    /// More data may arrive.
    Open,
    /// The peer has closed the connection.
    Closed,
}

/// Passes the received data to the program.
fn read(
    participant: &mut Participant,
    state: &RunState,
    stream: &TcpStream,
) -> io::Result<ReadState> {
    loop {
        let mut bytes = BytesMut::zeroed(READ_BUFFER);
        match stream.try_read(&mut bytes) {
            Ok(0) => return Ok(ReadState::Closed),
            Ok(len) => {
                let data = bytes.split_to(len).freeze();
                participant.program.handle_message(state.now(), 0, data);
                if participant.program.reading() == ReadMode::Nothing {
                    return Ok(ReadState::Open);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadState::Open),
            Err(error) => return Err(error),
        }
    }
}

/// Creates a socket with the configured congestion control and segment size; returns it with the port.
fn socket(participant: &Participant) -> Result<(Socket, u16), ParticipantError> {
    let Stack::Tcp {
        congestion,
        port,
        segment,
        send_buffer,
        multipath,
        ..
    } = participant.stack
    else {
        return Err(ParticipantError::Failed("the stack is not TCP".into()));
    };
    let protocol = match multipath {
        Some(_) => multipath::PROTOCOL,
        None => Protocol::TCP,
    };
    let socket = match Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)) {
        Err(error) if multipath.is_some() => {
            return Err(ParticipantError::Missing(format!(
                "this kernel has no Multipath TCP (CONFIG_MPTCP and net.mptcp.enabled): {error}"
            )));
        }
        made => made?,
    };
    match socket.set_tcp_congestion(congestion.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ParticipantError::Missing(format!(
                "this kernel has no TCP congestion control {congestion} (module tcp_{congestion})"
            )));
        }
        chosen => chosen?,
    }
    if let Some(segment) = segment {
        socket.set_tcp_mss(segment.into())?;
    }
    if let Some(bytes) = send_buffer {
        // The kernel doubles the value for its own overhead.
        socket.set_send_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    Ok((socket, port))
}

/// Sets the connection up, and returns it with the listener of a server.
async fn connect(
    participant: &Participant,
    state: &RunState,
) -> Result<(TcpStream, Option<TcpListener>), ParticipantError> {
    let (socket, port) = socket(participant)?;
    let no_address = || ParticipantError::Failed("a host has no address".into());
    let own = *participant.addresses.first().ok_or_else(no_address)?;
    let peer = *participant.peers.first().ok_or_else(no_address)?;
    if participant.client {
        socket.bind(&SocketAddr::from((own, 0)).into())?;
        participant.wait_for_server(state).await?;
        let socket = TcpSocket::from_std_stream(socket.into());
        return Ok((socket.connect((peer, port).into()).await?, None));
    }
    // A subflow to another address needs a listener on it.
    let own = match participant.stack {
        Stack::Tcp {
            multipath: Some(_), ..
        } => Ipv4Addr::UNSPECIFIED.into(),
        _ => own,
    };
    socket.bind(&SocketAddr::from((own, port)).into())?;
    socket.listen(1)?;
    let listener = TcpListener::from_std(socket.into())?;
    participant.set_listening(state);
    loop {
        match tokio::time::timeout(MAX_WAIT, listener.accept()).await {
            Ok(accepted) => return Ok((accepted?.0, Some(listener))),
            Err(_) => state.check()?,
        }
    }
}
