//! Random calls of the sockets API.

use std::net::SocketAddr;

use carrick_sockets::linux::*;

use crate::input::{Input, MAX_PAYLOAD, Message};
use crate::network::{Network, ip, ip6};
use crate::numbers::Numbers;

const PORT: u16 = 5000;

/// Options with the sizes of their structs and the offset of an address in them.
const OPTIONS: &[(i32, usize, Option<usize>)] = &[
    (SCTP_RTOINFO, 16, None),
    (SCTP_ASSOCINFO, 20, None),
    (SCTP_INITMSG, 8, None),
    (SCTP_NODELAY, 4, None),
    (SCTP_AUTOCLOSE, 4, None),
    (SCTP_SET_PEER_PRIMARY_ADDR, 132, Some(4)),
    (SCTP_PRIMARY_ADDR, 132, Some(4)),
    (SCTP_ADAPTATION_LAYER, 4, None),
    (SCTP_DISABLE_FRAGMENTS, 4, None),
    (SCTP_PEER_ADDR_PARAMS, 156, Some(4)),
    (SCTP_PEER_ADDR_PARAMS, 152, Some(4)),
    (SCTP_DEFAULT_SEND_PARAM, 32, None),
    (SCTP_EVENTS, 14, None),
    (SCTP_I_WANT_MAPPED_V4_ADDR, 4, None),
    (SCTP_MAXSEG, 8, None),
    (SCTP_STATUS, 176, None),
    (SCTP_GET_PEER_ADDR_INFO, 152, Some(4)),
    (SCTP_DELAYED_SACK, 12, None),
    (SCTP_DELAYED_SACK, 8, None),
    (SCTP_CONTEXT, 8, None),
    (SCTP_FRAGMENT_INTERLEAVE, 4, None),
    (SCTP_PARTIAL_DELIVERY_POINT, 4, None),
    (SCTP_MAX_BURST, 8, None),
    (SCTP_AUTH_CHUNK, 1, None),
    (SCTP_HMAC_IDENT, 8, None),
    (SCTP_AUTH_KEY, 16, None),
    (SCTP_AUTH_ACTIVE_KEY, 8, None),
    (SCTP_AUTH_DELETE_KEY, 8, None),
    (SCTP_AUTH_DEACTIVATE_KEY, 8, None),
    (SCTP_PEER_AUTH_CHUNKS, 40, None),
    (SCTP_LOCAL_AUTH_CHUNKS, 40, None),
    (SCTP_GET_ASSOC_NUMBER, 4, None),
    (SCTP_GET_ASSOC_ID_LIST, 60, None),
    (SCTP_AUTO_ASCONF, 4, None),
    (SCTP_PEER_ADDR_THLDS, 144, Some(8)),
    (SCTP_PEER_ADDR_THLDS_V2, 144, Some(8)),
    (SCTP_RECVRCVINFO, 4, None),
    (SCTP_RECVNXTINFO, 4, None),
    (SCTP_DEFAULT_SNDINFO, 16, None),
    (SCTP_DEFAULT_PRINFO, 12, None),
    (SCTP_PR_SUPPORTED, 8, None),
    (SCTP_RECONFIG_SUPPORTED, 8, None),
    (SCTP_ASCONF_SUPPORTED, 8, None),
    (SCTP_AUTH_SUPPORTED, 8, None),
    (SCTP_ECN_SUPPORTED, 8, None),
    (SCTP_INTERLEAVING_SUPPORTED, 8, None),
    (SCTP_PR_STREAM_STATUS, 24, None),
    (SCTP_PR_ASSOC_STATUS, 24, None),
    (SCTP_ENABLE_STREAM_RESET, 8, None),
    (SCTP_RESET_STREAMS, 8, None),
    (SCTP_RESET_STREAMS, 10, None),
    (SCTP_RESET_ASSOC, 4, None),
    (SCTP_ADD_STREAMS, 8, None),
    (SCTP_STREAM_SCHEDULER, 8, None),
    (SCTP_STREAM_SCHEDULER_VALUE, 8, None),
    (SCTP_EVENT, 8, None),
    (SCTP_REUSE_PORT, 4, None),
    (SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, 8, None),
    (SCTP_REMOTE_UDP_ENCAPS_PORT, 144, Some(8)),
    (SCTP_PLPMTUD_PROBE_INTERVAL, 144, Some(8)),
    (SCTP_GET_ASSOC_STATS, 256, None),
    (SCTP_GET_PEER_ADDRS, 200, None),
    (SCTP_GET_LOCAL_ADDRS, 200, None),
    (SCTP_SOCKOPT_BINDX_ADD, 16, Some(0)),
    (SCTP_SOCKOPT_BINDX_REM, 16, Some(0)),
    (SCTP_SOCKOPT_CONNECTX, 16, Some(0)),
];

/// Options of `SOL_SOCKET`, `IPPROTO_IP` and `IPPROTO_IPV6` with the sizes of their values.
const SOCKET_OPTIONS: &[((i32, i32), usize)] = &[
    ((SOL_SOCKET, SO_REUSEADDR), 4),
    ((SOL_SOCKET, SO_REUSEPORT), 4),
    ((SOL_SOCKET, SO_LINGER), 8),
    ((SOL_SOCKET, SO_RCVTIMEO), 16),
    ((SOL_SOCKET, SO_SNDTIMEO), 16),
    ((SOL_SOCKET, SO_SNDBUF), 4),
    ((SOL_SOCKET, SO_RCVBUF), 4),
    ((SOL_SOCKET, SO_ERROR), 4),
    ((SOL_SOCKET, SO_TYPE), 4),
    ((SOL_SOCKET, SO_DOMAIN), 4),
    ((SOL_SOCKET, SO_PROTOCOL), 4),
    ((SOL_SOCKET, SO_ACCEPTCONN), 4),
    ((SOL_SOCKET, SO_KEEPALIVE), 4),
    ((SOL_SOCKET, SO_RCVLOWAT), 4),
    ((SOL_SOCKET, SO_PRIORITY), 4),
    ((SOL_SOCKET, SO_PEEK_OFF), 4),
    ((IPPROTO_IPV6, IPV6_V6ONLY), 4),
    ((IPPROTO_IPV6, IPV6_TCLASS), 4),
    ((IPPROTO_IP, IP_TOS), 4),
];

/// Returns the address of a host with a port.
fn address(numbers: &mut Numbers, host: usize) -> SocketAddr {
    let port = PORT + numbers.below(3) as u16;
    let link = numbers.below(2) as u8;
    let ip = if numbers.below(4) == 0 {
        ip6(host, link)
    } else {
        ip(host, link)
    };
    SocketAddr::new(ip, port)
}

/// Returns an address that a socket may bind, rarely one that it may not.
fn own_address(numbers: &mut Numbers, host: usize) -> SocketAddr {
    let mut address = address(numbers, host);
    match numbers.below(12) {
        0 => address.set_port(0),
        1 | 2 => address.set_ip([0; 4].into()),
        3 => address.set_ip([0; 16].into()),
        4 => address.set_port(80),
        5 => address.set_ip([127, 0, 0, 1].into()),
        6 => address.set_ip(ip(1 - host, 0)),
        _ => {}
    }
    address
}

fn association(numbers: &mut Numbers) -> i32 {
    numbers.one_of(&[0, 0, 1, 2, 2, 3, 3, 3, 4, 5, 6, -1, 99])
}

/// Returns the value of an option, or a buffer for one.
fn value(
    numbers: &mut Numbers,
    name: i32,
    size: usize,
    place: Option<usize>,
    peer: SocketAddr,
) -> Vec<u8> {
    let words: &[u32] = &[
        0,
        0,
        0,
        1,
        1,
        2,
        3,
        4,
        5,
        7,
        100,
        500,
        1000,
        3000,
        6000,
        0xffff,
        1 << 20,
    ];
    let mut value: Vec<u8> = Vec::new();
    while value.len() < size {
        if numbers.below(3) == 0 {
            value.extend((numbers.below(4) as u16).to_ne_bytes());
            value.extend((numbers.below(4) as u16).to_ne_bytes());
        } else {
            value.extend(numbers.one_of(words).to_ne_bytes());
        }
    }
    value.truncate(size);
    let id = association(numbers).to_ne_bytes();
    let at = match name {
        SCTP_DEFAULT_SEND_PARAM => Some(28),
        SCTP_DEFAULT_SNDINFO => Some(12),
        SCTP_DEFAULT_PRINFO => Some(8),
        _ if place == Some(0) => None,
        _ if size > 4 => Some(0),
        _ => None,
    };
    if let Some(field) = at.and_then(|at| value.get_mut(at..at + 4)) {
        field.copy_from_slice(&id);
    }
    match name {
        SCTP_EVENT if size == 8 => {
            let kind = (SCTP_SN_TYPE_BASE + numbers.below(15) as i32) as u16;
            value[4..6].copy_from_slice(&kind.to_ne_bytes());
        }
        SCTP_HMAC_IDENT if size == 8 => {
            value = [2_u32.to_ne_bytes(), [1, 0, 3, 0]].concat();
        }
        SCTP_PEER_ADDR_PARAMS if size > 150 => {
            let flags = 1_u32 << numbers.below(10) | 1 << numbers.below(10);
            let at = size - if size == 156 { 12 } else { 4 };
            value[at..at + 4].copy_from_slice(&flags.to_ne_bytes());
        }
        _ => {}
    }
    if let Some(place) = place
        && (place == 0 || numbers.below(2) == 0)
    {
        let address = write_address(peer);
        value.resize(value.len().max(place + address.len()), 0);
        value[place..place + address.len()].copy_from_slice(&address);
        if place == 0 {
            value.truncate(address.len());
        }
    } else if let Some(place) = place
        && let Some(family) = value.get_mut(place..place + 2)
    {
        family.fill(0);
    }
    match numbers.below(30) {
        0 => value.truncate(numbers.below(value.len() + 1)),
        1 => value.extend([0; 4]),
        _ => {}
    }
    value
}

/// Returns a random call of an option.
fn option(numbers: &mut Numbers, socket: usize, host: usize) -> Input {
    let (option, value) = if numbers.below(4) == 0 {
        let (option, size) = numbers.one_of(SOCKET_OPTIONS);
        let words: &[i32] = &[-1, 0, 0, 1, 1, 2, 5, 64, 184, 5000, 20_000, 200_000];
        let mut value: Vec<u8> = Vec::new();
        while value.len() < size {
            value.extend(numbers.one_of(words).to_ne_bytes());
        }
        (option, value)
    } else if numbers.below(40) == 0 {
        let level = numbers.one_of(&[IPPROTO_SCTP, SOL_SOCKET, 77]);
        let size = numbers.below(40);
        ((level, numbers.below(140) as i32), vec![0; size])
    } else {
        let (name, size, place) = numbers.one_of(OPTIONS);
        let owner = if [SCTP_SOCKOPT_BINDX_ADD, SCTP_SOCKOPT_BINDX_REM].contains(&name) {
            host
        } else {
            1 - host
        };
        let peer = address(numbers, owner);
        (
            (IPPROTO_SCTP, name),
            value(numbers, name, size, place, peer),
        )
    };
    if numbers.below(2) == 0 {
        Input::SetOption(socket, option, value)
    } else {
        Input::GetOption(socket, option, value)
    }
}

/// Returns random ancillary data of a message.
fn control(numbers: &mut Numbers, peer: SocketAddr) -> Vec<(i32, Vec<u8>)> {
    let mut control = Vec::new();
    if numbers.below(2) == 0 {
        let flags = numbers.one_of(&[
            0,
            0,
            0,
            SCTP_UNORDERED,
            SCTP_ADDR_OVER,
            SCTP_SENDALL,
            SCTP_EOF,
            SCTP_ABORT,
            SCTP_SACK_IMMEDIATELY,
            SCTP_PR_SCTP_TTL,
            SCTP_PR_SCTP_RTX,
        ]);
        let stream = numbers.one_of(&[0_u16, 0, 1, 2, 9, 500]);
        let mut info = [stream.to_ne_bytes(), (flags as u16).to_ne_bytes()].concat();
        info.extend([0, 0, 0, 7, 9, 0, 0, 0]);
        info.extend(association(numbers).to_ne_bytes());
        control.push((SCTP_SNDINFO, info));
    }
    if numbers.below(8) == 0 {
        let policy = numbers.one_of(&[0_u16, 0x10, 0x20, 0x30]);
        let mut info = [policy.to_ne_bytes(), [0; 2]].concat();
        info.extend((numbers.below(300) as u32).to_ne_bytes());
        control.push((SCTP_PRINFO, info));
    }
    if numbers.below(16) == 0 {
        let words = [4_u16, 5, 2, 1000].map(|word| word.to_ne_bytes());
        control.push((SCTP_INIT, words.concat()));
    }
    if numbers.below(20) == 0 {
        control.push((SCTP_AUTHINFO, vec![numbers.below(3) as u8, 0]));
    }
    if numbers.below(20) == 0
        && let std::net::IpAddr::V4(v4) = peer.ip()
    {
        control.push((SCTP_DSTADDRV4, v4.octets().to_vec()));
    }
    if numbers.below(30) == 0 {
        let kind = numbers.below(10) as i32;
        let len = numbers.below(40);
        control.push((kind, vec![numbers.below(3) as u8; len]));
    }
    control
}

/// Returns a random call on a random socket of a host.
pub(crate) fn random(numbers: &mut Numbers, network: &Network, host: usize) -> Input {
    let count = network.socket_count(host);
    if count < 3 || numbers.below(25) == 0 {
        let (is_one_to_one, is_v6) = (numbers.below(2) == 0, numbers.below(4) == 0);
        return Input::Socket {
            is_one_to_one,
            is_v6,
        };
    }
    // Mostly one of the latest, since others may have been closed.
    let recent = count.min(6);
    let socket = if numbers.below(4) == 0 {
        numbers.below(count)
    } else {
        count - 1 - numbers.below(recent)
    };
    let peer = address(numbers, 1 - host);
    match numbers.below(48) {
        0 | 1 => Input::Bind(socket, own_address(numbers, host)),
        2 => {
            let addresses = (0..=numbers.below(2)).map(|_| own_address(numbers, host));
            Input::BindxAdd(socket, addresses.collect())
        }
        3 => Input::BindxRemove(socket, vec![own_address(numbers, host)]),
        4 | 5 => Input::Listen(socket, numbers.one_of(&[0, 1, 3, 5, 5, 5, -1])),
        6 | 7 => Input::Connect(socket, peer),
        8 => {
            let peers = (0..numbers.below(3))
                .map(|link| SocketAddr::new(ip(1 - host, link as u8), peer.port()));
            Input::Connectx(socket, peers.collect())
        }
        9..=11 => Input::Accept(socket),
        12..=18 => {
            let len = numbers.one_of(&[0, 1, 10, 100, 1000, 3000, 9000, 40_000, MAX_PAYLOAD]);
            let address = (numbers.below(2) == 0).then_some(peer);
            let control = control(numbers, peer);
            Input::Send(
                socket,
                Message {
                    address,
                    len,
                    control,
                },
            )
        }
        19..=25 => {
            let size = numbers.one_of(&[0, 10, 1000, 1 << 20, 1 << 20, 1 << 20]);
            let control_size = numbers.one_of(&[0, 20, 1000]);
            Input::Receive(
                socket,
                (size, control_size),
                numbers.one_of(&[0, 0, 0, MSG_PEEK, MSG_DONTWAIT]),
            )
        }
        26..=37 => option(numbers, socket, host),
        38 => Input::PeelOff(socket, association(numbers)),
        39 => Input::ShutDown(socket, numbers.below(4) as i32),
        40 => numbers
            .below(3)
            .checked_sub(1)
            .map_or(Input::Abort(socket), |_| Input::Close(socket)),
        41 => Input::SetOwner(socket, numbers.below(3) as u32),
        42 | 43 => Input::PeelOff(socket, numbers.one_of(&[3, 3, 4, 5])),
        44 => {
            let option = numbers.one_of(&[SO_REUSEADDR, SO_REUSEADDR, SO_REUSEPORT]);
            Input::SetOption(socket, (SOL_SOCKET, option), 1_i32.to_ne_bytes().to_vec())
        }
        _ => rare(numbers, socket, host),
    }
}

fn rare(numbers: &mut Numbers, socket: usize, host: usize) -> Input {
    let link = numbers.below(3) as u8;
    let own = if numbers.below(2) == 0 {
        ip(host, link)
    } else {
        ip6(host, link)
    };
    match numbers.below(16) {
        0 | 1 => Input::SetPrivileged(socket, numbers.below(2) == 0),
        2 => Input::SetError(socket),
        3 => Input::SetDefaults(3 + numbers.below(4) as u32),
        4..=7 => Input::AddressAdded(own),
        8..=10 => Input::AddressRemoved(own),
        11 | 12 => Input::RoutesChanged,
        13 => Input::ShutDownAssociations(socket),
        14 if numbers.below(4) == 0 => Input::AbortAssociations,
        _ => Input::Accept(socket),
    }
}
