//! Memory and descriptors of the program.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::kernel::{Listener, Notification};

/// Limit of the parts of a message (`UIO_MAXIOV`).
const MAX_PARTS: u64 = 1024;
/// Size of `struct iovec`.
const IOVEC: usize = 16;
/// Flag of `pidfd_open` for a thread (`PIDFD_THREAD`, Linux 6.9).
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// Thread that waits for a reply. What is read from it is valid only while it waits: its identifier may have been
/// used again otherwise, so each method checks that afterwards.
pub(crate) struct Caller<'a> {
    pub(crate) listener: &'a Listener,
    pub(crate) notification: &'a Notification,
}

/// Buffer of the program.
pub(crate) type Part = RemoteIoVec;

fn number(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

/// Returns the integer at an offset of a structure of the program.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let part = bytes.get(at..at + 4).and_then(|part| part.first_chunk());
    part.map_or(0, |part| u32::from_ne_bytes(*part))
}

/// Returns the long integer at an offset of a structure of the program.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|part| part.first_chunk());
    part.map_or(0, |part| u64::from_ne_bytes(*part))
}

impl Caller<'_> {
    fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.notification.thread)
    }

    /// # Errors
    /// `ESRCH`: the thread does not wait any more.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.listener.is_valid(self.notification) {
            Ok(())
        } else {
            Err(Errno::SRCH)
        }
    }

    /// Returns the limit of the program's descriptors (`RLIMIT_NOFILE`); `None` if it has none, or the system does not
    /// show it.
    pub(crate) fn file_limit(&self) -> Option<u64> {
        let limits = format!("/proc/{}/limits", self.notification.thread);
        let limits = std::fs::read_to_string(limits).ok()?;
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))?;
        line.split_whitespace().nth(3)?.parse().ok()
    }

    /// Reads bytes of the program.
    pub(crate) fn read(&self, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        self.gather(&[part(address, len)], &mut bytes)?;
        Ok(bytes)
    }

    /// Reads an integer of the program.
    pub(crate) fn read_word(&self, address: u64) -> Result<u32, Errno> {
        self.read(address, 4).map(|bytes| word(&bytes, 0))
    }

    /// Reads the parts of a message of the program, which have the size of the buffer together.
    pub(crate) fn gather(&self, parts: &[Part], buffer: &mut [u8]) -> Result<(), Errno> {
        if buffer.is_empty() {
            return Ok(());
        }
        let len = buffer.len();
        let mut own = [IoSliceMut::new(buffer)];
        let read = process_vm_readv(self.pid(), &mut own, parts).map_err(number)?;
        self.check()?;
        if read == len {
            Ok(())
        } else {
            Err(Errno::FAULT)
        }
    }

    /// Writes bytes to the program.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.scatter(&[part(address, bytes.len())], bytes)
    }

    /// Writes a message to buffers of the program.
    pub(crate) fn scatter(&self, parts: &[Part], bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.check()?;
        let own = [IoSlice::new(bytes)];
        let written = process_vm_writev(self.pid(), &own, parts).map_err(number)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(Errno::FAULT)
        }
    }

    /// Writes a value, truncated to the size of the program's buffer, and its full size.
    pub(crate) fn put(&self, value: &[u8], buffer: u64, len: u64) -> Result<(), Errno> {
        let space = i32::try_from(self.read_word(len)?).map_err(|_| Errno::INVAL)?;
        self.write(buffer, &value[..value.len().min(space as usize)])?;
        self.write(len, &(value.len() as u32).to_ne_bytes())
    }

    /// Reads a list of parts (`struct iovec`), without empty ones; `many` is the error of a list that is too long.
    pub(crate) fn parts(&self, list: u64, count: u64, many: Errno) -> Result<Vec<Part>, Errno> {
        if count > MAX_PARTS {
            return Err(many);
        }
        let bytes = self.read(list, count as usize * IOVEC)?;
        parse_parts(&bytes)
    }

    /// Returns a descriptor of the thread, or of its process where the kernel has none of threads.
    pub(crate) fn handle(&self) -> Result<OwnedFd, Errno> {
        let thread = Pid::from_raw(self.notification.thread).ok_or(Errno::SRCH)?;
        let handle = match pidfd_open(thread, PIDFD_THREAD) {
            Err(Errno::INVAL) => pidfd_open(self.process()?, PidfdFlags::empty()),
            opened => opened,
        }?;
        self.check()?;
        Ok(handle)
    }

    /// Returns the identifier of the process of the thread.
    fn process(&self) -> Result<Pid, Errno> {
        let status = status(self.notification.thread).ok_or(Errno::SRCH)?;
        let process = field(&status, "Tgid:").and_then(|process| process.parse().ok());
        process.and_then(Pid::from_raw).ok_or(Errno::SRCH)
    }

    /// Returns whether `exec` closes a descriptor of the program.
    pub(crate) fn closes_on_exec(&self, fd: i32) -> bool {
        let path = format!("/proc/{}/fdinfo/{fd}", self.notification.thread);
        let info = std::fs::read_to_string(path).unwrap_or_default();
        let flags = field(&info, "flags:").and_then(|flags| i32::from_str_radix(flags, 8).ok());
        flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
    }

    /// Returns the signal that ends a call which waits.
    pub(crate) fn pending_signal(&self) -> PendingSignal {
        let status = status(self.notification.thread).unwrap_or_default();
        let mask = |name| {
            let mask = field(&status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
            mask.unwrap_or(0)
        };
        let blocked = mask("SigBlk:");
        if mask("SigPnd:") & !blocked != 0 {
            return PendingSignal::OfThread;
        }
        if mask("ShdPnd:") & !blocked == 0 {
            return PendingSignal::None;
        }
        // The kernel prefers the first thread for signals of the process.
        if field(&status, "Tgid:") == field(&status, "Pid:") {
            return PendingSignal::OfThread;
        }
        PendingSignal::OfProcess
    }
}

/// Signal that is pending while a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingSignal {
    None,
    /// The thread handles it.
    OfThread,
    /// Any thread of the process that does not block it handles it.
    OfProcess,
}

fn part(address: u64, len: usize) -> Part {
    RemoteIoVec {
        base: address as usize,
        len,
    }
}

/// Returns the parts of a list of `struct iovec`, without empty ones.
///
/// # Errors
/// `EINVAL` for a part with a negative size, as in the kernel: `process_vm_writev` would refuse it after the message was
/// taken.
fn parse_parts(list: &[u8]) -> Result<Vec<Part>, Errno> {
    let parts = list.chunks_exact(IOVEC).map(|entry| {
        let len = usize::try_from(long(entry, 8) as i64).map_err(|_| Errno::INVAL)?;
        Ok(part(long(entry, 0), len))
    });
    parts
        .filter(|part| !matches!(part, Ok(part) if part.len == 0))
        .collect()
}

/// Returns one buffer of the program.
pub(crate) fn one_part(address: u64, len: u64) -> Vec<Part> {
    let part = part(address, len as usize);
    if len > 0 { vec![part] } else { Vec::new() }
}

fn status(thread: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{thread}/status")).ok()
}

/// Returns the value of a line of `/proc`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map(str::trim)
}

/// Returns whether this process may take descriptors from others. The seccomp profiles of containers may refuse it, which
/// they do regardless of the process.
pub(crate) fn can_duplicate() -> bool {
    let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    own.is_ok_and(|own| duplicate(&own, own.as_raw_fd()).is_ok())
}

/// Returns a duplicate of a descriptor of the program.
///
/// # Errors
/// `EBADF`: the number is free.
pub(crate) fn duplicate(handle: &OwnedFd, number: i32) -> Result<OwnedFd, Errno> {
    if number < 0 {
        // The filter notifies of the options of SCTP with any number.
        return Err(Errno::BADF);
    }
    pidfd_getfd(handle, number, PidfdGetfdFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: &[(u64, u64)]) -> Vec<u8> {
        let words = parts.iter().flat_map(|(base, len)| [base, len]);
        words.flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn empty_parts_are_skipped() {
        let parts = parse_parts(&list(&[(8, 0), (16, 5), (0, 0), (32, 7)])).unwrap();
        let found: Vec<_> = parts.iter().map(|part| (part.base, part.len)).collect();
        assert_eq!(found, [(16, 5), (32, 7)]);
        assert!(parse_parts(&[]).unwrap().is_empty());
        assert!(one_part(8, 0).is_empty());
        assert_eq!(one_part(8, 3)[0].len, 3);
    }

    #[test]
    fn parts_with_negative_sizes_are_refused() {
        for len in [u64::MAX, 1 << 63] {
            let parts = parse_parts(&list(&[(8, 4), (16, len)]));
            assert_eq!(parts.err(), Some(Errno::INVAL), "{len:#x}");
        }
    }

    #[test]
    fn fields_beyond_a_structure_are_zero() {
        let bytes = list(&[(0x0102_0304_0506_0708, 9)]);
        assert_eq!(long(&bytes, 0), 0x0102_0304_0506_0708);
        assert_eq!(
            (long(&bytes, 8), long(&bytes, 9), long(&bytes, 99)),
            (9, 0, 0)
        );
        assert_eq!(
            (word(&bytes, 12), word(&bytes, 13), word(&bytes, 16)),
            (0, 0, 0)
        );
    }

    #[test]
    fn lines_of_proc_are_found_by_their_names() {
        let text = "Name:\tTgid: 9\nTgid:\t  77\nShdPnd:\t0000000000000100\n";
        assert_eq!(field(text, "Tgid:"), Some("77"));
        assert_eq!(field(text, "ShdPnd:"), Some("0000000000000100"));
        assert_eq!(field(text, "SigBlk:"), None);
    }

    #[test]
    fn own_descriptors_are_duplicated() {
        let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        let taken = duplicate(&own, own.as_raw_fd());
        assert_eq!(taken.is_ok(), can_duplicate());
        for number in [-1, i32::MIN] {
            assert_eq!(duplicate(&own, number).err(), Some(Errno::BADF));
        }
    }
}
