//! Interface of service managers: notifications of readiness (`sd_notify(3)`), a control socket that the manager has
//! opened (`sd_listen_fds(3)`), and descriptors that it holds from one process of the service to the next
//! (`FDSTORE=1`).

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use carrick_ipc::MAX_ATTACHED;
use nix::unistd::close;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketType, sockopt};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_getfd, pidfd_open,
    setrlimit,
};

use crate::connection::PATIENCE;
use crate::pair::send_with_files;

/// First descriptor that a service manager passes (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Name of the descriptors that the manager holds (`FDNAME=`). It is short, since the next process gets the names of all
/// in one string.
const HELD: &str = "s";

/// Maximum length of the names of all descriptors, with a colon each: Linux limits a string of the environment,
/// `LISTEN_FDNAMES=` with the names, to 128 KiB (`MAX_ARG_STRLEN`), of which other sockets of the unit have 1 KiB here.
const MAX_NAMES: usize = (127 << 10) - "LISTEN_FDNAMES=".len();

/// Begin of the names of listening descriptors that the manager holds while the daemon runs. The cookie of the program's
/// end follows.
const LISTENER: &str = "carrick-listener-";

/// Name of the file with the identifiers of associations.
const ASSOCIATIONS: &str = "carrick-associations";

/// Length of the name of such a descriptor, with a colon.
const HELD_NAME: usize = HELD.len() + ":".len();

/// Time for all messages to the manager when the daemon starts or ends.
const TOGETHER: Duration = Duration::from_secs(5);

/// Notifies the service manager of a state, such as `READY=1` or `STOPPING=1`. Without the environment variable
/// `NOTIFY_SOCKET` nothing happens.
///
/// # Errors
/// The manager's socket could not be reached.
pub fn notify(state: &str) -> io::Result<()> {
    match manager()? {
        Some(manager) => notify_with(&manager, state, &[]),
        None => Ok(()),
    }
}

/// Returns a socket that is connected to the manager, by the environment variable `NOTIFY_SOCKET`.
fn manager() -> io::Result<Option<UnixDatagram>> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(Some(socket))
}

fn notify_with(manager: &UnixDatagram, state: &str, attached: &[BorrowedFd<'_>]) -> io::Result<()> {
    let parts = [IoSlice::new(state.as_bytes())];
    Ok(send_with_files(
        manager,
        &parts,
        attached,
        SendFlags::NOSIGNAL,
    )?)
}

/// Returns the number of descriptors that the manager holds (`FDSTORE`, set by systemd 254 and later).
fn capacity() -> Option<usize> {
    std::env::var("FDSTORE").ok()?.parse().ok()
}

/// Descriptor store of the manager for the listening descriptors of programs. Nothing waits for the manager while the
/// daemon runs.
///
/// The daemon's end of a pair and its record have different names. Those of records are two in turn, so that the next record
/// is stored before the last one is removed.
#[derive(Debug)]
pub(crate) struct ListenerStore {
    manager: UnixDatagram,
}

/// Name of the record of a listening descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordSlot {
    First,
    Second,
}

impl RecordSlot {
    /// Returns the other name.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Returns the name of a listening descriptor in the store, or that of its record.
fn listener_name(cookie: u64, slot: Option<RecordSlot>) -> String {
    let suffix = match slot {
        None => "",
        Some(RecordSlot::First) => "-1",
        Some(RecordSlot::Second) => "-2",
    };
    format!("{LISTENER}{cookie:x}{suffix}")
}

/// Returns the length of the names of a listening descriptor and its records in `LISTEN_FDNAMES`.
pub(crate) fn listener_names_length(cookie: u64) -> usize {
    3 * (listener_name(cookie, Some(RecordSlot::First)).len() + ":".len())
}

/// Returns the cookie in the name of a listening descriptor, or in that of its record.
fn listener_cookie(name: &str) -> Option<u64> {
    let cookie = name.strip_prefix(LISTENER)?.split('-').next()?;
    u64::from_str_radix(cookie, 16).ok()
}

impl ListenerStore {
    /// Connects to the manager; `None` without one.
    ///
    /// # Errors
    /// The manager's socket could not be reached.
    pub(crate) fn connect() -> io::Result<Option<Self>> {
        let manager = manager()?;
        if let Some(manager) = &manager {
            manager.set_nonblocking(true)?;
        }
        Ok(manager.map(|manager| Self { manager }))
    }

    /// Returns the number of listening descriptors that the manager holds, if it has reported that.
    pub(crate) fn capacity() -> Option<usize> {
        // The daemon's end of the pair, the record, and the next one.
        capacity().map(|descriptors| descriptors.saturating_sub(1) / 3)
    }

    /// Stores the daemon's end of a pair. The manager keeps it when the program has closed the other end, since the state of
    /// a planned restart contains it.
    ///
    /// # Errors
    /// `EAGAIN`: the manager has too many messages to read. Others: it could not be reached.
    pub(crate) fn store_end(&self, cookie: u64, ours: &OwnedFd) -> io::Result<()> {
        let name = listener_name(cookie, None);
        let state = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
        notify_with(&self.manager, &state, &[ours.as_fd()])
    }

    /// Stores the record of a descriptor.
    ///
    /// # Errors
    /// As for [`Self::store_end`].
    pub(crate) fn store_record(
        &self,
        cookie: u64,
        slot: RecordSlot,
        record: &OwnedFd,
    ) -> io::Result<()> {
        self.store(&listener_name(cookie, Some(slot)), record)
    }

    /// Stores the file with the identifiers of associations, instead of another one.
    ///
    /// # Errors
    /// As for [`Self::store_end`].
    pub(crate) fn store_associations(&self, file: &OwnedFd) -> io::Result<()> {
        self.remove_associations()?;
        self.store(ASSOCIATIONS, file)
    }

    /// Removes the file with the identifiers of associations.
    ///
    /// # Errors
    /// As for [`Self::store_end`].
    pub(crate) fn remove_associations(&self) -> io::Result<()> {
        self.remove_name(ASSOCIATIONS)
    }

    fn store(&self, name: &str, file: &OwnedFd) -> io::Result<()> {
        let state = format!("FDSTORE=1\nFDNAME={name}");
        notify_with(&self.manager, &state, &[file.as_fd()])
    }

    /// Removes a record.
    ///
    /// # Errors
    /// As for [`Self::store_end`].
    pub(crate) fn remove_record(&self, cookie: u64, slot: RecordSlot) -> io::Result<()> {
        self.remove_name(&listener_name(cookie, Some(slot)))
    }

    /// Removes a descriptor with its records.
    ///
    /// # Errors
    /// As for [`Self::store_end`].
    pub(crate) fn remove(&self, cookie: u64) -> io::Result<()> {
        self.remove_record(cookie, RecordSlot::First)?;
        self.remove_record(cookie, RecordSlot::Second)?;
        self.remove_name(&listener_name(cookie, None))
    }

    fn remove_name(&self, name: &str) -> io::Result<()> {
        let state = format!("FDSTOREREMOVE=1\nFDNAME={name}");
        notify_with(&self.manager, &state, &[])
    }

    /// Removes descriptors when the daemon starts or ends. Waits for the manager.
    ///
    /// # Errors
    /// The manager could not be reached, or does not read its messages.
    pub(crate) fn remove_all(&self, cookies: impl Iterator<Item = u64>) -> io::Result<()> {
        self.manager.set_nonblocking(false)?;
        let end = Instant::now() + TOGETHER;
        for cookie in cookies {
            let rest = end.saturating_duration_since(Instant::now());
            // A limit of 0 would be none.
            let rest = rest.max(Duration::from_millis(1));
            self.manager.set_write_timeout(Some(rest))?;
            self.remove(cookie)?;
        }
        self.manager.set_nonblocking(true)
    }
}

/// Returns whether the next process can be passed a number of descriptors for a planned restart, beside others with names
/// of a length.
pub(crate) fn can_be_passed(descriptors: usize, names: usize) -> bool {
    descriptors * HELD_NAME + names <= MAX_NAMES
}

/// Lets the service manager hold descriptors, which the next process of the service gets ([`passed`]). Returns when
/// the manager has them.
///
/// # Errors
/// There is no manager, it holds fewer (`FDSTORE`, set by systemd 254 and later), or it has not taken them within
/// 10 s. It then holds none.
pub(crate) fn hold(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let manager = manager()?.ok_or_else(|| io::Error::other("there is none (NOTIFY_SOCKET)"))?;
    if let Some(limit) = capacity().filter(|limit| descriptors.len() > *limit) {
        return Err(io::Error::other(format!(
            "{} descriptors are more than the {limit} that it holds: raise FileDescriptorStoreMax= of the unit",
            descriptors.len()
        )));
    }
    if !can_be_passed(descriptors.len(), 0) {
        return Err(io::Error::other(format!(
            "{} descriptors are more than the {} that can be passed to the next process",
            descriptors.len(),
            MAX_NAMES / HELD_NAME
        )));
    }
    // A descriptor whose peer closes it meanwhile is kept, since its end is part of the state.
    let store = format!("FDSTORE=1\nFDNAME={HELD}\nFDPOLL=0");
    let mut parts = descriptors.chunks(MAX_ATTACHED);
    let held = parts
        .try_for_each(|part| notify_with(&manager, &store, part))
        .and_then(|()| wait_for(&manager));
    if held.is_err() {
        // Programs and peers would not notice the end of what it keeps open. It may not be reached for this, either.
        let _ = notify_with(&manager, &format!("FDSTOREREMOVE=1\nFDNAME={HELD}"), &[]);
    }
    held
}

/// Lets the service manager close the descriptors that it holds. Returns when it has, so that their addresses are
/// free.
pub(crate) fn release() -> io::Result<()> {
    let Some(manager) = manager()? else {
        return Ok(());
    };
    notify_with(&manager, &format!("FDSTOREREMOVE=1\nFDNAME={HELD}"), &[])?;
    wait_for(&manager)
}

/// Waits until the manager has processed all messages so far: it closes the pipe of `BARRIER=1` then.
fn wait_for(manager: &UnixDatagram) -> io::Result<()> {
    let (closed, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
    notify_with(manager, "BARRIER=1", &[pipe.as_fd()])?;
    drop(pipe);
    let limit = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(&closed, PollFlags::IN)];
    match poll(&mut polled, Some(&limit))? {
        0 => Err(io::Error::other(format!(
            "it has not answered for {} s",
            PATIENCE.as_secs()
        ))),
        _ => Ok(()),
    }
}

/// Raises this process's limit of open files to the highest one that it may set (`RLIMIT_NOFILE`), since each
/// descriptor of a program takes one of the daemon's. Processes that are started afterwards inherit it.
///
/// # Errors
/// The system refuses it.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    Ok(())
}

/// Descriptors that a service manager has passed.
#[derive(Debug, Default)]
pub struct Passed {
    /// The control socket that the manager has opened.
    pub(crate) control: Option<OwnedFd>,
    /// Descriptors that the manager holds for a predecessor that was restarted, in any order.
    pub(crate) held: Vec<OwnedFd>,
    /// Listening descriptors of a predecessor, by their cookies: the daemon's end and records in any order.
    pub(crate) listeners: BTreeMap<u64, Vec<OwnedFd>>,
    /// File with the identifiers of associations of that predecessor.
    pub(crate) associations: Option<OwnedFd>,
}

/// Returns the descriptors that the service manager has passed, by the environment variables `LISTEN_PID`,
/// `LISTEN_FDS` and `LISTEN_FDNAMES`; none if they are not set, or are those of another process. To be called once.
///
/// # Errors
/// There are several control sockets, or one is not a listening `AF_UNIX` socket of type `SOCK_SEQPACKET`.
pub fn passed() -> io::Result<Passed> {
    let number = |name| std::env::var(name).ok()?.parse::<i32>().ok();
    let own = getpid().as_raw_nonzero().get();
    let mut passed = Passed::default();
    let count = number("LISTEN_FDS").filter(|count| *count > 0);
    let Some(count) = count.filter(|_| number("LISTEN_PID") == Some(own)) else {
        return Ok(passed);
    };
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    // Descriptors of this process are found by their numbers without unsafe code.
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let mut controls = 0;
    for number in FIRST..FIRST.saturating_add(count) {
        let descriptor = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
        // Programs would not notice the end of a descriptor that is open twice.
        close(number)?;
        let name = names.next().unwrap_or_default();
        if name == HELD {
            passed.held.push(descriptor);
        } else if name == ASSOCIATIONS {
            passed.associations = Some(descriptor);
        } else if let Some(cookie) = listener_cookie(name) {
            passed.listeners.entry(cookie).or_default().push(descriptor);
        } else {
            controls += 1;
            passed.control = Some(descriptor);
        }
    }
    if controls > 1 {
        return Err(io::Error::other(format!(
            "{controls} sockets were passed (LISTEN_FDS): give the unit one ListenSequentialPacket="
        )));
    }
    if let Some(socket) = &passed.control {
        let is_control = sockopt::socket_domain(socket)? == AddressFamily::UNIX
            && sockopt::socket_type(socket)? == SocketType::SEQPACKET
            && sockopt::socket_acceptconn(socket)?;
        if !is_control {
            return Err(io::Error::other(
                "the socket passed in LISTEN_FDS is not a SOCK_SEQPACKET listener: set ListenSequentialPacket= in the .socket unit",
            ));
        }
        rustix::io::ioctl_fionbio(socket, true)?;
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// 8,190 descriptors with a name of 15 characters did not fit: the next process could not be started.
    #[test]
    fn the_names_of_all_held_descriptors_fit() {
        let most = MAX_NAMES / HELD_NAME;
        assert!(most > 64_000 && can_be_passed(most, 0) && !can_be_passed(most, HELD_NAME));
        let names = vec![HELD; most].join(":");
        let names = format!("{names}:carrick-daemon.socket");
        let started = Command::new("/bin/true")
            .env("LISTEN_FDNAMES", names)
            .status();
        assert!(started.unwrap().success());
    }
}
