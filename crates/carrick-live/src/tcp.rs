//! A program over the kernel's TCP, which carries its messages as a stream of bytes.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use carrick_lab::live::{ReadMode, Stack};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::alarm::Alarm;
use crate::host::{Ended, Host, PATIENCE, Shared, Trouble};

/// Read at once, at most.
const PIECE: usize = 1 << 16;

pub(crate) async fn run(mut host: Host, shared: &Shared) -> Result<Ended, Trouble> {
    let alarm = Alarm::new()?;
    let stream = connect(&host, shared).await?;
    stream.set_nodelay(true)?;
    host.begin(shared, 1).await?;
    let mut waiting: VecDeque<Bytes> = VecDeque::new();
    while !host.is_over(shared)? {
        loop {
            write(&stream, &mut waiting)?;
            // What the kernel does not take waits; no more is asked for until it does.
            let more = waiting.is_empty().then(|| host.program.poll_transmit());
            let Some(out) = more.flatten() else {
                break;
            };
            waiting.push_back(out.payload);
        }
        let reads = host.program.reading() != ReadMode::Nothing;
        tokio::select! {
            ready = stream.readable(), if reads => {
                ready?;
                if take(&mut host, shared, &stream)? == Taken::End {
                    return Err(Trouble::Failed("the connection was closed".into()));
                }
            }
            ready = stream.writable(), if !waiting.is_empty() => ready?,
            slept = host.sleep(shared, &alarm) => slept?,
        }
        host.expire(shared);
    }
    host.leave(shared).await?;
    Ok(Ended {
        program: host.program,
        timeouts: 0,
    })
}

/// Gives the kernel as much as it takes.
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

/// What comes after what has come.
#[derive(PartialEq, Eq)]
enum Taken {
    /// More, some time.
    More,
    /// Nothing: the other host is gone.
    End,
}

/// Gives the program what has come.
fn take(host: &mut Host, shared: &Shared, stream: &TcpStream) -> io::Result<Taken> {
    loop {
        let mut bytes = BytesMut::zeroed(PIECE);
        match stream.try_read(&mut bytes) {
            Ok(0) => return Ok(Taken::End),
            Ok(len) => {
                let piece = bytes.split_to(len).freeze();
                host.program.handle_message(shared.now(), 0, piece);
                if host.program.reading() == ReadMode::Nothing {
                    return Ok(Taken::More);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Taken::More),
            Err(error) => return Err(error),
        }
    }
}

/// A socket with the congestion control and the segments that are wanted.
fn socket(host: &Host) -> Result<(Socket, u16), Trouble> {
    let Stack::Tcp {
        congestion,
        port,
        segment,
        ..
    } = host.stack
    else {
        return Err(Trouble::Failed("the stack is not TCP".into()));
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    match socket.set_tcp_congestion(congestion.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Trouble::Missing(format!(
                "this kernel has no TCP congestion control {congestion} (module tcp_{congestion})"
            )));
        }
        chosen => chosen?,
    }
    if let Some(segment) = segment {
        socket.set_tcp_mss(segment.into())?;
    }
    socket.set_nonblocking(true)?;
    Ok((socket, port))
}

async fn connect(host: &Host, shared: &Shared) -> Result<TcpStream, Trouble> {
    let (socket, port) = socket(host)?;
    let missing = || Trouble::Failed("a host has no address".into());
    let own = *host.addresses.first().ok_or_else(missing)?;
    let peer = *host.peers.first().ok_or_else(missing)?;
    if host.client {
        socket.bind(&SocketAddr::from((own, 0)).into())?;
        host.wait_for_server(shared).await?;
        let socket = TcpSocket::from_std_stream(socket.into());
        return Ok(socket.connect((peer, port).into()).await?);
    }
    socket.bind(&SocketAddr::from((own, port)).into())?;
    socket.listen(1)?;
    let listener = TcpListener::from_std(socket.into())?;
    host.listens(shared);
    loop {
        match tokio::time::timeout(PATIENCE, listener.accept()).await {
            Ok(accepted) => return Ok(accepted?.0),
            Err(_) => shared.go_on()?,
        }
    }
}
