//! Netlink socket to the kernel's netfilter. Calls are synchronous: the kernel processes a message
//! while it is sent.

use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendmsg,
    setsockopt, socket, sockopt,
};

use crate::abi::{self, netlink};
use crate::attribute::{HEADER_LEN, MessageWriter, NetlinkMessage, NetlinkMessages};
use crate::error::NftablesError;

/// Maximum size of a batch in octets.
const SEND_BUFFER: usize = 8 << 20;
const RECEIVE_BUFFER: usize = 4 << 20;

/// Maximum number of attempts at a dump that is interrupted by changes.
const DUMP_ATTEMPTS: usize = 64;

#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    fd: OwnedFd,
    sequence: u32,
    /// Number of committed batches.
    commits: u32,
    buffer: Vec<u8>,
}

/// Batch of changes, applied entirely or not at all.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    writer: MessageWriter,
    count: u32,
    /// Position of the last message's flags.
    last_flags: usize,
}

impl Batch {
    /// Adds a message of `nf_tables`; `build` writes its attributes.
    pub(crate) fn push(&mut self, kind: u16, flags: u16, build: impl FnOnce(&mut MessageWriter)) {
        self.last_flags = self.writer.octets.len() + 6;
        let kind = abi::NFTABLES << 8 | kind;
        // Errors refer to the number of a message in its batch.
        let (flags, number) = (flags | netlink::REQUEST, self.count);
        self.count += 1;
        self.writer
            .message(kind, flags, number, abi::INET, 0, build);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the encoded batch, from which the layout identifier of a set is computed.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.writer.octets
    }
}

impl NetlinkSocket {
    pub(crate) fn open() -> Result<Self, NftablesError> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )
        .map_err(|errno| match errno {
            Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT => NftablesError::Unsupported(errno),
            errno => NftablesError::of("open a netlink socket", errno),
        })?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))
            .map_err(|errno| NftablesError::of("bind a netlink socket", errno))?;
        // Without CAP_NET_ADMIN, the error of the first change is clearer.
        let _ = setsockopt(&fd, sockopt::SndBufForce, &SEND_BUFFER);
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BUFFER);
        Ok(Self {
            fd,
            sequence: 0,
            commits: 0,
            buffer: vec![0; 1 << 18],
        })
    }

    /// Commits a batch and passes on the messages that the kernel echoes.
    ///
    /// # Errors
    /// The first error of the kernel; nothing was changed.
    pub(crate) fn commit(
        &mut self,
        mut batch: Batch,
        mut echo: impl FnMut(&NetlinkMessage<'_>),
    ) -> Result<(), Errno> {
        let base = self.take_numbers(batch.count + 2);
        let octets = &mut batch.writer.octets;
        set_flag(octets, batch.last_flags, netlink::ACK);
        renumber(octets, base + 1);
        let (mut begin, mut end) = (MessageWriter::default(), MessageWriter::default());
        let flags = netlink::REQUEST;
        begin.message(abi::BATCH_BEGIN, flags, base, 0, abi::NFTABLES, |_| ());
        let last = base + batch.count + 1;
        end.message(abi::BATCH_END, flags, last, 0, abi::NFTABLES, |_| ());
        self.send(&[&begin.octets, octets, &end.octets])?;
        let mut outcome = None;
        self.receive(false, |message| {
            if message.sequence.wrapping_sub(base) > batch.count + 1 {
                return false;
            }
            match error_of(message) {
                Some(0) => {
                    outcome.get_or_insert(Ok(()));
                }
                Some(errno) => {
                    // Acknowledgements have no meaning next to an error: the batch is atomic.
                    if !matches!(outcome, Some(Err(_))) {
                        outcome = Some(Err(Errno::from_raw(errno)));
                    }
                }
                None => echo(message),
            }
            false
        })?;
        outcome.unwrap_or(Err(Errno::ENOBUFS))?;
        self.commits = self.commits.wrapping_add(1);
        Ok(())
    }

    /// Returns the number of committed batches, with wrap-around.
    pub(crate) fn commits(&self) -> u32 {
        self.commits
    }

    /// Sends a query and passes on each message of the answer.
    ///
    /// # Errors
    /// Those of the kernel. EINTR if something changed during the dump: it may be incomplete and has
    /// to be repeated.
    pub(crate) fn query(
        &mut self,
        kind: u16,
        flags: u16,
        build: impl FnOnce(&mut MessageWriter),
        each: impl FnMut(&NetlinkMessage<'_>),
    ) -> Result<(), Errno> {
        self.query_family(abi::INET, kind, flags, build, each)
    }

    /// Queries one address family.
    pub(crate) fn query_family(
        &mut self,
        family: u8,
        kind: u16,
        flags: u16,
        build: impl FnOnce(&mut MessageWriter),
        mut each: impl FnMut(&NetlinkMessage<'_>),
    ) -> Result<(), Errno> {
        let number = self.take_numbers(1);
        let mut request = MessageWriter::default();
        // A dump ends with DONE, other answers with an acknowledgement.
        let end = if flags & netlink::DUMP == 0 {
            netlink::ACK
        } else {
            0
        };
        let flags = flags | end | netlink::REQUEST;
        request.message(kind, flags, number, family, 0, build);
        self.send(&[&request.octets])?;
        let (mut outcome, mut interrupted) = (Err(Errno::ENOBUFS), false);
        self.receive(true, |message| {
            if message.sequence != number {
                return false;
            }
            interrupted |= message.flags & netlink::DUMP_INTERRUPTED != 0;
            match end_of(message) {
                Some(0) => outcome = Ok(()),
                Some(errno) => outcome = Err(Errno::from_raw(errno)),
                None => {
                    each(message);
                    return false;
                }
            }
            true
        })?;
        match outcome {
            Ok(()) if interrupted => Err(Errno::EINTR),
            outcome => outcome,
        }
    }

    /// Dumps all objects of a kind with `each`, until no change interrupts the dump.
    pub(crate) fn dump<T: Default>(
        &mut self,
        kind: u16,
        build: impl Fn(&mut MessageWriter),
        mut each: impl FnMut(&mut T, &NetlinkMessage<'_>),
    ) -> Result<T, Errno> {
        for _ in 0..DUMP_ATTEMPTS {
            let mut all = T::default();
            match self.query(kind, netlink::DUMP, &build, |m| each(&mut all, m)) {
                Err(Errno::EINTR) => {}
                outcome => return outcome.map(|()| all),
            }
        }
        Err(Errno::EBUSY)
    }

    fn take_numbers(&mut self, count: u32) -> u32 {
        let first = self.sequence;
        self.sequence = first.wrapping_add(count);
        if self.sequence < first {
            // Start over at the wrap-around, so that the numbers of a batch are in order.
            self.sequence = count;
            return 0;
        }
        first
    }

    fn send(&self, parts: &[&[u8]]) -> Result<(), Errno> {
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        loop {
            let fd = self.fd.as_raw_fd();
            match sendmsg::<()>(fd, &parts, &[], MsgFlags::empty(), None) {
                Err(Errno::EINTR) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Passes on messages until `each` returns that it was the last one or, without `wait`, none is
    /// left.
    fn receive(
        &mut self,
        wait: bool,
        mut each: impl FnMut(&NetlinkMessage<'_>) -> bool,
    ) -> Result<(), Errno> {
        let flags = if wait {
            MsgFlags::empty()
        } else {
            MsgFlags::MSG_DONTWAIT
        };
        loop {
            match recv(self.fd.as_raw_fd(), &mut self.buffer, flags) {
                Ok(length) => {
                    for message in NetlinkMessages(&self.buffer[..length]) {
                        if each(&message) {
                            return Ok(());
                        }
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if !wait => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Returns the error of a message: 0 for an acknowledgement, `None` for other messages.
fn error_of(message: &NetlinkMessage<'_>) -> Option<i32> {
    if message.kind != netlink::ERROR {
        return None;
    }
    let negative = message.body.first_chunk::<4>()?;
    Some(i32::from_ne_bytes(*negative).saturating_neg())
}

/// Returns the error that ends an answer, 0 if none; `None` if more messages follow.
fn end_of(message: &NetlinkMessage<'_>) -> Option<i32> {
    match message.kind {
        // A dump may fail in the middle.
        netlink::DONE => {
            let negative = message.body.first_chunk::<4>();
            Some(negative.map_or(0, |octets| i32::from_ne_bytes(*octets).saturating_neg()))
        }
        _ => error_of(message),
    }
}

fn set_flag(octets: &mut [u8], at: usize, flag: u16) {
    if let Some(flags) = octets.get_mut(at..).and_then(|o| o.first_chunk_mut::<2>()) {
        *flags = (u16::from_ne_bytes(*flags) | flag).to_ne_bytes();
    }
}

/// Adds a base to the sequence number of each message.
fn renumber(octets: &mut [u8], base: u32) {
    let mut at = 0;
    while let Some(header) = octets
        .get_mut(at..)
        .and_then(|o| o.first_chunk_mut::<HEADER_LEN>())
    {
        let [l0, l1, l2, l3, _, _, _, _, s0, s1, s2, s3, ..] = *header;
        let number = u32::from_ne_bytes([s0, s1, s2, s3]).wrapping_add(base);
        header[8..12].copy_from_slice(&number.to_ne_bytes());
        at += (u32::from_ne_bytes([l0, l1, l2, l3]) as usize)
            .next_multiple_of(4)
            .max(HEADER_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a socket connected to a simulated kernel.
    fn connected_socket() -> (NetlinkSocket, OwnedFd) {
        use nix::sys::socket::socketpair;
        let flags = SockFlag::SOCK_CLOEXEC;
        let (fd, kernel) =
            socketpair(AddressFamily::Unix, SockType::Datagram, None, flags).unwrap();
        let socket = NetlinkSocket {
            fd,
            sequence: 0,
            commits: 0,
            buffer: vec![0; 1 << 12],
        };
        (socket, kernel)
    }

    /// Sends an answer of one element and DONE, with these flags and this error.
    fn answer(kernel: &OwnedFd, number: u32, name: &str, flags: u16, error: i32) {
        let mut out = MessageWriter::default();
        out.message(7, flags, number, 0, 0, |w| w.name(1, name));
        let at = out.octets.len();
        out.message(netlink::DONE, flags, number, 0, 0, |_| ());
        out.octets[at + HEADER_LEN..].copy_from_slice(&error.to_ne_bytes());
        nix::unistd::write(kernel, &out.octets).unwrap();
    }

    fn names(socket: &mut NetlinkSocket) -> Result<Vec<Vec<u8>>, Errno> {
        socket.dump(
            7,
            |_| (),
            |all: &mut Vec<Vec<u8>>, message| {
                all.extend(message.attributes().name(1).map(<[u8]>::to_vec));
            },
        )
    }

    #[test]
    fn interrupted_dump_is_repeated() {
        let (mut socket, kernel) = connected_socket();
        answer(&kernel, 0, "old", netlink::DUMP_INTERRUPTED, 0);
        answer(&kernel, 1, "new", 0, 0);
        assert_eq!(names(&mut socket), Ok(vec![b"new".to_vec()]));
    }

    #[test]
    fn failed_dump_is_an_error() {
        let (mut socket, kernel) = connected_socket();
        answer(&kernel, 0, "half", 0, -(Errno::ENOMEM as i32));
        assert_eq!(names(&mut socket), Err(Errno::ENOMEM));
    }
}
