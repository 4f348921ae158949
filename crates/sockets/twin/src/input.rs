//! Inputs of a host's sockets, without types of either crate.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use bytes::Bytes;
use carrick_proto::{IcmpKind, Route, Transmit};

/// Input of a host's sockets. Sockets have the numbers of their creation.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Socket { is_one_to_one: bool, is_v6: bool },
    Bind(usize, SocketAddr),
    BindxAdd(usize, Vec<SocketAddr>),
    BindxRemove(usize, Vec<SocketAddr>),
    Listen(usize, i32),
    Connect(usize, SocketAddr),
    Connectx(usize, Vec<SocketAddr>),
    Accept(usize),
    Send(usize, Message),
    Receive(usize, (usize, usize), i32),
    SetOption(usize, (i32, i32), Vec<u8>),
    GetOption(usize, (i32, i32), Vec<u8>),
    PeelOff(usize, i32),
    ShutDown(usize, i32),
    Close(usize),
    Abort(usize),
    ShutDownAssociations(usize),
    AbortAssociations,
    SetOwner(usize, u32),
    SetPrivileged(usize, bool),
    SetError(usize),
    SetDefaults(u32),
    AddressAdded(IpAddr),
    AddressRemoved(IpAddr),
    RoutesChanged,
    Packets(Route, Vec<Bytes>),
    Icmp(IcmpKind, IpAddr, Vec<u8>),
    Oversized(Transmit, Vec<u8>, usize),
    Timeout,
    Handover,
}

/// Largest payload of a message in bytes.
pub(crate) const MAX_PAYLOAD: usize = 300_000;

/// Returns the payload of a message, which shares its memory with others.
pub(crate) fn payload(len: usize) -> Bytes {
    static LARGEST: LazyLock<Bytes> =
        LazyLock::new(|| (0..MAX_PAYLOAD).map(|n| n as u8).collect::<Vec<_>>().into());
    LARGEST.slice(..len)
}

/// Message with its ancillary data by type.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) len: usize,
    pub(crate) control: Vec<(i32, Vec<u8>)>,
}

/// Outputs of a host's sockets after an input.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Outputs {
    /// Result of the call, changes of readiness, notifications of set-ups, reports and state.
    pub(crate) text: String,
    pub(crate) packets: Vec<(Transmit, Vec<u8>)>,
    pub(crate) export: Vec<u8>,
}
