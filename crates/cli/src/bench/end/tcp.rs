//! The kernel's TCP.
//!
//! A connection begins with the kind of the measurement and the size of the messages. Both ends write and read as many
//! bytes a call, as iperf3 does.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

use super::{Delivered, Listening, end_with_input, measure_round_trips, print};

/// Number of bytes before the messages.
const HEADER: usize = 5;
const SEND: u8 = 0;
const PING: u8 = 1;

pub(super) fn serve(address: Ipv4Addr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    let port = listener.local_addr()?.port();
    print(&Listening { port })?;
    end_with_input();
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let [kind, size @ ..] = header;
    let mut message = vec![0; u32::from_be_bytes(size) as usize];
    if kind == PING {
        loop {
            match stream.read_exact(&mut message) {
                Ok(()) => stream.write_all(&message)?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
    let mut received: u64 = 0;
    loop {
        match stream.read(&mut message)? {
            0 => return stream.write_all(&received.to_be_bytes()),
            read => received += read as u64,
        }
    }
}

fn connect(address: SocketAddr, kind: u8, size: usize) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    let [a, b, c, d] = (size as u32).to_be_bytes();
    stream.write_all(&[kind, a, b, c, d])?;
    Ok(stream)
}

pub(super) fn send(
    address: SocketAddr,
    size: usize,
    time: Duration,
    congestion: Option<&OsString>,
) -> io::Result<()> {
    let mut stream = connect(address, SEND, size)?;
    if let Some(name) = congestion {
        setsockopt(&stream, TcpCongestion, name)?;
    }
    let message = vec![0; size];
    let begin = Instant::now();
    while begin.elapsed() < time {
        stream.write_all(&message)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    print(&Delivered {
        bytes: u64::from_be_bytes(received),
        seconds: begin.elapsed().as_secs_f64(),
    })
}

pub(super) fn ping(address: SocketAddr, size: usize, count: u32) -> io::Result<()> {
    let mut stream = connect(address, PING, size)?;
    stream.set_nodelay(true)?;
    let mut message = vec![0; size];
    measure_round_trips(count, || {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)
    })
}
