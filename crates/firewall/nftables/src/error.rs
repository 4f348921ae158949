//! Errors at the start.

use carrick_simco::backend::BackendError;
use nix::errno::Errno;

/// Reason for which a table could not be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NftablesError {
    /// The process lacks permission.
    #[error(
        "not permitted to change the packet filter: run as root, or give the program CAP_NET_ADMIN (`setcap cap_net_admin+ep`, in systemd `AmbientCapabilities=CAP_NET_ADMIN`)"
    )]
    NotPermitted,
    /// The kernel lacks support.
    #[error(
        "this kernel lacks nf_tables with sets of counters and timeouts, or for the family inet ({0}): Linux 5.7 or later with CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET and, to translate addresses, CONFIG_NFT_NAT is needed (try `modprobe nf_tables`)"
    )]
    Unsupported(Errno),
    /// The configuration is invalid.
    #[error("{0}")]
    Configuration(String),
    /// The table differs from the configuration and can't be replaced.
    #[error(
        "cannot replace table {0}, which has other settings or was changed: rules in chain site or another chain of yours refer to its sets or chains. It is unchanged. Remove those rules (`nft -a list table inet {0}`), then restart"
    )]
    InUse(String),
    /// Another middlebox uses the table.
    #[error(
        "table {0} is in use by another middlebox: stop it (`ss -xap | grep carrick-nftables-{0}` shows the process), or give each middlebox its own table (`backend.table`)"
    )]
    Locked(String),
    /// The table was removed after its creation.
    #[error("the table was removed by another program: restart the middlebox")]
    Missing,
    /// Error of the system.
    #[error("cannot {what}: {errno}")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Error of the system.
        errno: Errno,
    },
}

impl NftablesError {
    pub(crate) fn of(what: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::NotPermitted,
            Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT => {
                Self::Unsupported(errno)
            }
            errno => Self::System { what, errno },
        }
    }
}

/// Converts an error of the kernel to that of a backend.
pub(crate) fn backend_error(errno: Errno) -> BackendError {
    match errno {
        Errno::ENFILE | Errno::ENOSPC | Errno::ENOMEM | Errno::ENOBUFS | Errno::EMSGSIZE => {
            BackendError::Full
        }
        Errno::EEXIST | Errno::EBUSY => BackendError::OutOfStep,
        Errno::ENOENT => BackendError::NotEnforced,
        errno => BackendError::System(format!("packet filter: {errno}")),
    }
}
