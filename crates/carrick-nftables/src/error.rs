//! What can go wrong at the start.

use carrick_simco::backend::BackendError;
use nix::errno::Errno;

/// Why a table could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NftablesError {
    /// The process may not.
    #[error(
        "not permitted to change the packet filter: run as root, or give the program CAP_NET_ADMIN (`setcap cap_net_admin+ep`, in systemd `AmbientCapabilities=CAP_NET_ADMIN`)"
    )]
    NotPermitted,
    /// The kernel can't.
    #[error(
        "this kernel lacks nf_tables with sets of counters and timeouts, or for the family inet ({0}): Linux 5.7 or later with CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET and, to translate addresses, CONFIG_NFT_NAT is needed (try `modprobe nf_tables`)"
    )]
    Unsupported(Errno),
    /// The configuration is wrong.
    #[error("{0}")]
    Configuration(String),
    /// The table is not as it should be, and can't be made so.
    #[error(
        "table {0} was made with other settings or changed, and can't be made anew: chain site or another chain of yours uses sets or chains of the middlebox. It is as it was. Take those rules out (`nft -a list table inet {0}`), then start again"
    )]
    InUse(String),
    /// Another middlebox has the table.
    #[error(
        "table {0} is in use by another middlebox: stop that (`ss -xap | grep carrick-nftables-{0}` names it), or give each a table of its own (`table` of the backend)"
    )]
    Taken(String),
    /// The table was removed after it was made.
    #[error("the table was removed: something else changes the rule set; start again")]
    Missing,
    /// What the system says.
    #[error("can't {what}: {errno}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
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

/// What an error of the kernel means for a request.
pub(crate) fn backend_error(errno: Errno) -> BackendError {
    match errno {
        Errno::ENFILE | Errno::ENOSPC | Errno::ENOMEM | Errno::ENOBUFS | Errno::EMSGSIZE => {
            BackendError::Full
        }
        Errno::EEXIST | Errno::EBUSY => BackendError::OutOfStep,
        Errno::ENOENT => BackendError::Gone,
        errno => BackendError::System(format!("the packet filter: {errno}")),
    }
}
