//! Socket that the runtime polls.
//!
//! On Unix it is registered for reading and errors alone. Registered for writing as well, it would wake the thread after
//! every packet that leaves; it is registered for writing only while the system accepts no packet.

#[cfg(not(unix))]
pub(super) use other::PolledSocket;
#[cfg(unix)]
pub(super) use unix::PolledSocket;

/// Type of the socket in system calls.
#[cfg(unix)]
pub(super) type SystemSocket = std::net::UdpSocket;
#[cfg(not(unix))]
pub(super) type SystemSocket = tokio::net::UdpSocket;

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::sync::Arc;
    use std::task::{Context, Poll, ready};

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::SystemSocket;

    /// Socket that the runtime polls.
    pub(in crate::socket) struct PolledSocket {
        io: Arc<AsyncFd<SystemSocket>>,
        /// Another descriptor of the socket, registered for writing while the system accepts no packet.
        pub(in crate::socket) blocked: Option<AsyncFd<OwnedFd>>,
    }

    #[expect(
        deprecated,
        reason = "`register_with_interest` is unsafe, because a type may change its descriptor; a socket does not"
    )]
    fn register<S: AsFd + AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
        AsyncFd::with_interest(socket, interest)
    }

    impl PolledSocket {
        /// Registers a socket that does not block.
        pub(in crate::socket) fn new(socket: SystemSocket) -> io::Result<Self> {
            let io = register(socket, Interest::READABLE | Interest::ERROR)?;
            Ok(Self {
                io: Arc::new(io),
                blocked: None,
            })
        }

        pub(in crate::socket) fn get(&self) -> &SystemSocket {
            self.io.get_ref()
        }

        /// Calls `read` when packets have arrived. `read` also returns whether it has emptied the receive queue: the next
        /// call then waits before it reads.
        pub(in crate::socket) fn poll_read<R>(
            &self,
            cx: &mut Context<'_>,
            mut read: impl FnMut(&SystemSocket) -> io::Result<(R, bool)>,
        ) -> Poll<io::Result<R>> {
            loop {
                let mut guard = ready!(self.io.poll_read_ready(cx))?;
                // A packet that arrives after `read` makes the socket ready again: only what was known before is cleared.
                match read(guard.get_inner()) {
                    Ok((result, is_empty)) => {
                        if is_empty {
                            guard.clear_ready();
                        }
                        return Poll::Ready(Ok(result));
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                    Err(e) => return Poll::Ready(Err(e)),
                }
            }
        }

        /// Calls `write` until the system accepts packets.
        pub(in crate::socket) fn poll_write<R>(
            &mut self,
            cx: &mut Context<'_>,
            mut write: impl FnMut(&SystemSocket) -> io::Result<R>,
        ) -> Poll<io::Result<R>> {
            loop {
                if let Some(blocked) = &self.blocked {
                    ready!(blocked.poll_write_ready(cx))?.clear_ready();
                }
                match write(self.get()) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    written => {
                        self.blocked = None;
                        return Poll::Ready(written);
                    }
                }
                if self.blocked.is_none() {
                    let other = self.get().as_fd().try_clone_to_owned()?;
                    self.blocked = Some(register(other, Interest::WRITABLE)?);
                }
            }
        }

        /// Returns a future that resolves when the error queue is not empty.
        pub(in crate::socket) fn errors(&self) -> impl Future<Output = io::Result<()>> + use<> {
            let io = Arc::clone(&self.io);
            async move { io.ready(Interest::ERROR).await.map(drop) }
        }

        /// Calls `take` if the error queue is not empty. `take` returns whether it has emptied it.
        pub(in crate::socket) fn take_errors(&self, take: impl FnOnce(&SystemSocket) -> bool) {
            // Without an error there is nothing to read.
            let _ = self.io.try_io(Interest::ERROR, |socket| {
                if take(socket) {
                    // Clears the runtime's readiness for errors.
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
        }
    }
}

#[cfg(not(unix))]
mod other {
    use std::io;
    use std::task::{Context, Poll, ready};

    use tokio::io::Interest;

    use super::SystemSocket;

    /// Socket that the runtime polls.
    pub(in crate::socket) struct PolledSocket {
        io: SystemSocket,
    }

    impl PolledSocket {
        /// Registers a socket that does not block.
        pub(in crate::socket) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
            let io = SystemSocket::from_std(socket)?;
            Ok(Self { io })
        }

        pub(in crate::socket) fn get(&self) -> &SystemSocket {
            &self.io
        }

        /// Calls `read` when there are packets.
        pub(in crate::socket) fn poll_read<R>(
            &self,
            cx: &mut Context<'_>,
            mut read: impl FnMut(&SystemSocket) -> io::Result<(R, bool)>,
        ) -> Poll<io::Result<R>> {
            loop {
                ready!(self.io.poll_recv_ready(cx))?;
                match self.io.try_io(Interest::READABLE, || read(&self.io)) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read.map(|(result, _)| result)),
                }
            }
        }

        /// Calls `write` until the system accepts packets.
        pub(in crate::socket) fn poll_write<R>(
            &mut self,
            cx: &mut Context<'_>,
            mut write: impl FnMut(&SystemSocket) -> io::Result<R>,
        ) -> Poll<io::Result<R>> {
            loop {
                ready!(self.io.poll_send_ready(cx))?;
                match self.io.try_io(Interest::WRITABLE, || write(&self.io)) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    written => return Poll::Ready(written),
                }
            }
        }

        /// Never resolves: there is no error queue.
        pub(in crate::socket) fn errors(&self) -> std::future::Pending<io::Result<()>> {
            std::future::pending()
        }

        /// There is no error queue.
        pub(in crate::socket) fn take_errors(&self, _: impl FnOnce(&SystemSocket) -> bool) {}
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::future::poll_fn;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::Duration;

    use super::PolledSocket;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Packets arrive at all moments of a read that leaves none.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_packet_that_arrives_after_a_read_is_seen() {
        const PACKETS: usize = 20_000;
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.set_nonblocking(true).unwrap();
        let to = near.local_addr().unwrap();
        let polled = PolledSocket::new(near).unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let sender = {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let far = UdpSocket::bind("127.0.0.1:0").unwrap();
                for sent in 0..PACKETS {
                    far.send_to(b"packet", to).unwrap();
                    // The receive buffer has room for all that are on their way.
                    while sent - seen.load(Ordering::Relaxed).min(sent) > 20 {
                        std::thread::yield_now();
                    }
                }
            })
        };
        let read_all = async {
            while seen.load(Ordering::Relaxed) < PACKETS {
                poll_fn(|cx| {
                    polled.poll_read(cx, |socket| {
                        let mut buffer = [0; 16];
                        socket.recv(&mut buffer)?;
                        seen.fetch_add(1, Ordering::Relaxed);
                        let left = socket.peek(&mut buffer);
                        Ok(((), left.is_err()))
                    })
                })
                .await
                .unwrap();
            }
        };
        tokio::time::timeout(LIMIT, read_all).await.unwrap();
        sender.join().unwrap();
    }

    #[tokio::test]
    async fn writing_continues_when_there_is_room() {
        let (near, far) = UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let near = UdpSocket::from(OwnedFd::from(near));
        let mut polled = PolledSocket::new(near).unwrap();
        let send = |socket: &UdpSocket| socket.send(&[0; 1000]).map(drop);
        let mut sent = 0;
        loop {
            let written = poll_fn(|cx| Poll::Ready(polled.poll_write(cx, send))).await;
            match written {
                Poll::Ready(written) => written.unwrap(),
                Poll::Pending => break,
            }
            sent += 1;
        }
        assert!(sent > 0);
        assert!(polled.blocked.is_some());
        let read = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..sent {
                far.recv(&mut [0; 1000]).unwrap();
            }
            far
        });
        let written = poll_fn(|cx| polled.poll_write(cx, send));
        tokio::time::timeout(LIMIT, written).await.unwrap().unwrap();
        assert!(polled.blocked.is_none(), "not woken by further packets");
        drop(read.await);
    }
}
