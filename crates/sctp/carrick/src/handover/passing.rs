//! State and sockets over a Unix socket.
//!
//! ```text
//! number of descriptors (4) | length of the state (8) | one byte for each group of descriptors | state
//! ```

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::Handover;

/// Maximum number of descriptors in a group.
const GROUP: usize = 64;

/// Bytes in front of the descriptors.
const HEADER: usize = 4 + 8;

impl Handover {
    /// Sends the state and the descriptors to the successor on a Unix stream socket, such as one end of
    /// [`UnixStream::pair`] that the successor has as its standard input. This call blocks; the socket's write timeout
    /// limits it.
    ///
    /// The handover is still there afterwards: keep it until the successor reports that it has resumed the endpoint, and
    /// resume it in this process if it has not.
    ///
    /// # Errors
    /// The successor has closed its end, or does not read.
    pub fn send(&self, mut to: &UnixStream) -> io::Result<()> {
        let mut header = [0; HEADER];
        // A process has fewer descriptors.
        header[..4].copy_from_slice(&(self.descriptors.len() as u32).to_be_bytes());
        header[4..].copy_from_slice(&(self.state.len() as u64).to_be_bytes());
        to.write_all(&header)?;
        for group in self.descriptors.chunks(GROUP) {
            let group: Vec<BorrowedFd<'_>> = group.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GROUP))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&group));
            let byte = [IoSlice::new(&[0])];
            retried(|| sendmsg(to, &byte, &mut control, SendFlags::NOSIGNAL))?;
        }
        to.write_all(&self.state)
    }

    /// Receives what the predecessor has sent with [`Self::send`]. This call blocks; the socket's read timeout limits it.
    ///
    /// # Errors
    /// The predecessor has ended before it has sent everything, or is another program.
    pub fn receive(mut from: &UnixStream) -> io::Result<Self> {
        let mut count = [0; 4];
        from.read_exact(&mut count)?;
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let (count, length) = (u32::from_be_bytes(count), u64::from_be_bytes(length));
        let mut descriptors = Vec::new();
        while descriptors.len() < count as usize {
            let received = receive_group(from, &mut descriptors)?;
            if received == 0 {
                let why = format!(
                    "{} of {count} descriptors were received; raise the limit of file descriptors (ulimit -n)",
                    descriptors.len()
                );
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
        }
        let mut state = Vec::new();
        let read = from.take(length).read_to_end(&mut state)? as u64;
        if read < length {
            let why = format!("{read} of {length} bytes of the state were received");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        Ok(Self { state, descriptors })
    }
}

/// Receives a group of descriptors. Returns their number.
fn receive_group(from: &UnixStream, descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GROUP))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = retried(|| recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    if received.bytes == 0 {
        let why = "the predecessor ended before it had sent all descriptors";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    let before = descriptors.len();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok(descriptors.len() - before)
}

/// Repeats a call that a signal has interrupted.
fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}
