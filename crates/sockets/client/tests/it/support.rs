//! Sockets of the tests, and calls on them.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use carrick_ipc::{Description, FrameKind, HEADER, Header, MAX_FRAME, Property, Request};
use libc::{iovec, msghdr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::fake_daemon::{self, Answer};

/// Size of a page in bytes.
pub(crate) const PAGE: usize = 4096;

/// Calls a function of the crate, or of libc; returns its value or the error number.
macro_rules! call {
    (carrick $name:ident($($argument:expr),* $(,)?)) => {
        crate::support::outcome(
            // SAFETY: the function checks the pointers, as the system call does.
            #[allow(clippy::cast_lossless)]
            unsafe { carrick_client::$name($($argument),*) as i64 }
        )
    };
    (libc $name:ident($($argument:expr),* $(,)?)) => {
        crate::support::outcome(
            // SAFETY: the kernel checks the pointers.
            #[allow(clippy::cast_lossless)]
            unsafe { libc::$name($($argument),*) as i64 }
        )
    };
}
pub(crate) use call;

/// Returns the value of a call, or the error number.
pub(crate) fn outcome(value: i64) -> Result<i64, i32> {
    // SAFETY: libc returns the location of the thread's `errno`.
    let errno = unsafe { *libc::__errno_location() };
    if value < 0 { Err(errno) } else { Ok(value) }
}

/// Socket of Carrick: the program's descriptor, and the daemon's end of its pair.
pub(crate) struct TestSocket {
    fd: OwnedFd,
    pub(crate) daemon: OwnedFd,
    /// Requests that the daemon has answered, as text.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    /// Sequence number of the next frame to the program.
    sequence: AtomicU32,
}

impl TestSocket {
    /// Returns a socket whose requests the function answers.
    pub(crate) fn answering(
        mut answers: impl FnMut(&Request<'_>) -> Answer + Send + 'static,
    ) -> Self {
        fake_daemon::start();
        let (fd, daemon) = fake_daemon::pair();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let recorded = requests.clone();
        fake_daemon::serve_socket(&fd, move |request| {
            let mut text = format!("{request:?}");
            text.truncate(100);
            recorded.lock().unwrap().push(text);
            answers(request)
        });
        Self {
            fd,
            daemon,
            requests,
            sequence: AtomicU32::new(u32::MAX),
        }
    }

    /// Returns a socket with these properties beside those of an established association.
    pub(crate) fn established(properties: &[Property]) -> Self {
        let description = with(Description::new(10, 1 << 20), &[Property::Established]);
        let description = with(description, properties);
        Self::answering(move |request| fake_daemon::plain(description, request))
    }

    pub(crate) fn fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    pub(crate) fn owned(&self) -> &OwnedFd {
        &self.fd
    }

    /// Lets another daemon continue the pair.
    pub(crate) fn restore(&self) {
        self.sequence.fetch_add(1000, Ordering::Relaxed);
    }

    /// Sends a frame to the program.
    pub(crate) fn deliver(&self, header: &Header, payload: &[u8]) {
        let header = Header {
            sequence: self.sequence.fetch_add(1, Ordering::Relaxed),
            ..*header
        };
        let frame = [&header.encode()[..], payload].concat();
        assert_eq!(
            send(&self.daemon, &frame, SendFlags::NOSIGNAL),
            Ok(frame.len())
        );
    }

    /// Sends a message to the program.
    pub(crate) fn deliver_message(&self, payload: &[u8]) {
        self.deliver(&Header::new(FrameKind::Message), payload);
    }

    /// Returns the next frame of the program: its header, ancillary data and payload. `None` without one.
    pub(crate) fn sent_frame(&self) -> Option<(Header, Vec<u8>, Vec<u8>)> {
        let mut frame = vec![0; MAX_FRAME];
        let (len, _) = recv(&self.daemon, &mut frame[..], RecvFlags::DONTWAIT).ok()?;
        let header = Header::decode(&frame[..len]).unwrap();
        let (control, payload) = frame[HEADER..len].split_at(header.control.into());
        Some((header, control.to_vec(), payload.to_vec()))
    }

    /// Closes the daemon's end.
    pub(crate) fn end(self) -> OwnedFd {
        self.fd
    }
}

pub(crate) fn with(description: Description, properties: &[Property]) -> Description {
    let add = |description: Description, property: &Property| description.with(*property, true);
    properties.iter().fold(description, add)
}

/// Pair of local sockets of the kernel with messages, for the same calls.
pub(crate) struct KernelSocket {
    fd: OwnedFd,
    peer: OwnedFd,
}

impl KernelSocket {
    pub(crate) fn new() -> Self {
        let (fd, peer) = fake_daemon::pair();
        Self { fd, peer }
    }

    pub(crate) fn fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    pub(crate) fn deliver_message(&self, payload: &[u8]) {
        assert_eq!(
            send(&self.peer, payload, SendFlags::NOSIGNAL),
            Ok(payload.len())
        );
    }

    /// Returns the next message of the program; `None` without one.
    pub(crate) fn sent_message(&self) -> Option<Vec<u8>> {
        let mut message = vec![0; MAX_FRAME];
        let (len, _) = recv(&self.peer, &mut message[..], RecvFlags::DONTWAIT).ok()?;
        Some(message[..len].to_vec())
    }
}

/// Two pages of memory, of which the second one has no access.
pub(crate) struct GuardedPage(*mut c_void);

impl GuardedPage {
    pub(crate) fn new() -> Self {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the mapping is new.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the page is part of the mapping, and nothing uses it.
        let changed = unsafe { libc::mprotect(start.byte_add(PAGE), PAGE, libc::PROT_NONE) };
        assert_eq!(changed, 0);
        Self(start)
    }

    /// Returns the address this number of bytes in front of the end.
    pub(crate) fn before_end(&self, bytes: usize) -> *mut c_void {
        self.0.wrapping_byte_add(PAGE - bytes)
    }

    /// Makes the first page constant.
    pub(crate) fn protect(&self) {
        // SAFETY: the page is part of the mapping, and no reference to it exists.
        assert_eq!(unsafe { libc::mprotect(self.0, PAGE, libc::PROT_READ) }, 0);
    }
}

impl Drop for GuardedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is that of `new`, and the tests have no reference to it.
        unsafe { libc::munmap(self.0, 2 * PAGE) };
    }
}

/// Returns a list of parts of a buffer, in their order.
pub(crate) fn parts(buffer: &mut [u8], sizes: &[usize]) -> Vec<iovec> {
    let mut rest = buffer;
    let mut list = Vec::new();
    for size in sizes {
        let (part, others) = rest.split_at_mut(*size);
        rest = others;
        list.push(iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        });
    }
    list
}

/// Returns a message without name and ancillary data.
pub(crate) fn message(list: &mut [iovec]) -> msghdr {
    // SAFETY: null pointers and zeros are valid in each field.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = list.as_mut_ptr();
    message.msg_iovlen = list.len() as _;
    message
}

/// Bytes of a value at an odd address, which x86-64 and 64-bit Arm permit.
pub(crate) struct Unaligned<T> {
    bytes: Vec<u8>,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Unaligned<T> {
    pub(crate) fn new(values: &[T]) -> Self {
        let mut new = Self {
            bytes: vec![0; size_of_val(values) + 2],
            kind: std::marker::PhantomData,
        };
        let start = new.pointer();
        for (at, value) in values.iter().enumerate() {
            // SAFETY: the bytes have room for all values behind an odd address.
            unsafe { start.add(at).write_unaligned(*value) };
        }
        new
    }

    pub(crate) fn pointer(&mut self) -> *mut T {
        let start = self.bytes.as_mut_ptr();
        let odd = usize::from(start.addr().is_multiple_of(2));
        start.wrapping_add(odd).cast()
    }

    pub(crate) fn get(&mut self, at: usize) -> T {
        // SAFETY: `new` has written the value, and calls only write valid ones.
        unsafe { self.pointer().add(at).read_unaligned() }
    }
}
