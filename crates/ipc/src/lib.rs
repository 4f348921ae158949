//! Frames between the Carrick daemon and the programs that use its SCTP sockets, as codecs from and to
//! bytes, without I/O.
//!
//! Both sides are processes of one host, and all sockets are `AF_UNIX` sockets of type
//! `SOCK_SEQPACKET`, which keep the limits of messages. Integers have the byte order of the host, except
//! those in socket addresses (`sockaddr_in`, `sockaddr_in6`), which have network byte order. Reserved
//! fields are 0. A decoder refuses everything else with [`Malformed`].
//!
//! # Frames on the socket pair of a descriptor
//!
//! A frame is a header of [`HEADER`] bytes ([`Header`]), ancillary data of up to [`MAX_CONTROL`] bytes, and
//! up to [`MAX_PAYLOAD`] bytes of a message.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | [`FRAME_MAGIC`] |
//! | 4 | 2 | kind ([`FrameKind`]) |
//! | 6 | 2 | flags: 1 the frame ends its message, 2 notification, 4 the rest of the message follows at once |
//! | 8 | 4 | sequence number of the frame in its direction, modulo 2^32 |
//! | 12 | 2 | size of the ancillary data in bytes |
//! | 14 | 2 | stream |
//! | 16 | 2 | stream sequence number |
//! | 17 | none: lease of an SCTP port ([`LeaseFrame`]); the pair is attached to the reply, whose value is a [`LeaseGrant`] | | local addresses with the port, packed | |
//! | 18 | 2 | flags of `SCTP_RCVINFO` |
//! | 20 | 4 | payload protocol identifier, with the bytes of the program's memory |
//! | 24 | 4 | TSN |
//! | 28 | 4 | cumulative TSN |
//! | 32 | 4 | context |
//! | 36 | 4 | association identifier |
//! | 40 | 28 | address of the peer, or zeros |
//! | 68 | 4 | reserved |
//!
//! | kind | from | meaning |
//! |---|---|---|
//! | 1 message | daemon | message or notification, or a part of one |
//! | 2 accepted | daemon | association to accept, on the pair of a listening socket; the descriptor is attached, and the payload is its [`Description`] |
//! | 3 failed | daemon | the socket has a pending error, to be read with `SO_ERROR` |
//! | 4 send | program | message with its ancillary data, or a part of one; only the first part has ancillary data |
//! | 5 plug | daemon, to itself | makes the descriptor not writable; the daemon reads it again |
//!
//! # Requests and replies on the control socket
//!
//! A request has up to [`MAX_REQUEST`] bytes; all but 1 and 13 to 20 have the descriptor attached. Each request
//! has one reply, of up to [`MAX_REPLY`] bytes; a connection has one request in flight.
//!
//! | offset | size | field of a request |
//! |---|---|---|
//! | 0 | 4 | [`REQUEST_MAGIC`] |
//! | 4 | 4 | code |
//! | 8 | 12 | three integers `a`, `b`, `c`, 0 if unused |
//! | 20 | 4 | size `n` of the first value in bytes |
//! | 24 | n | first value |
//! | 24 + n | rest | second value |
//!
//! | code | call | integers | first value | second value |
//! |---|---|---|---|---|
//! | 1 | `socket` | domain, type, protocol | | |
//! | 2 | none: status of a descriptor | | | |
//! | 3 | `bind` | | address | |
//! | 4 | `listen` | backlog | | |
//! | 5 | `connect` | | addresses, packed | |
//! | 6 | `shutdown` | how | | |
//! | 7 | `getsockopt` | level, name | content of the buffer | |
//! | 8 | `setsockopt` | level, name | value | |
//! | 9 | `getsockname` | | | |
//! | 10 | `getpeername` | | | |
//! | 11 | `sendmsg` | flags, size of the address | address, then ancillary data | message |
//! | 12 | `sctp_peeloff` | association identifier | | |
//! | 13 | none: sockets and associations of the host | socket of the last row, low and high half, -1 for the beginning; its association, or 0 | | |
//! | 14 | none: counters of the host | | | |
//! | 15 | none: handover to the process that sends the request | | | |
//! | 16 | none: capture | association identifier or 0 for all, SCTP port or 0 for all | | |
//! | 17 | none: end of a closed socket | cookie of its descriptor, low and high half | | |
//! | 19 | none: abort of an association, for an administrator | association identifier | | |
//! | 20 | none: events of associations and paths | | | |
//!
//! The value of the reply to 13 are JSON objects, one a line, each with the members `socket` and
//! `association`; the result is 1 if rows follow. The result of 2 is the pending error of the socket (`SO_ERROR`),
//! which remains. The reply to 5 of a blocking descriptor with many associations has another descriptor
//! attached, on which the daemon sends the result of the set-up: 0 or the error number of Linux, in 4 bytes.
//! The message of 11 may be a file instead (`memfd_create`, sealed against changes), attached behind the
//! descriptor. With 12 the daemon reads the frames that are unread on the attached descriptor and sends them again, on the
//! pair to which they belong; the program does not read meanwhile.
//!
//! The reply to 17 has another descriptor attached if the closed descriptor was the last one of a socket with
//! `SO_LINGER` and its associations have not ended. The result is the time of `SO_LINGER` in seconds; the daemon
//! closes the other end when the associations have ended.
//!
//! A handover (15) takes several messages, all of them replies by their layout. The reply of the daemon has its
//! state as a file attached, and the number of its file descriptors as the result; or an error with the reason as the
//! value. The file descriptors follow, up to [`MAX_ATTACHED`] with a message each. The successor sends an error
//! with its reason as the value, or none; after the latter the daemon sends an empty reply and ends. Until then it
//! has all descriptors as well, and continues if the connection ends.
//!
//! The reply to 16 has the end of a pair attached, on which the daemon sends a copy of each packet
//! ([`CapturedPacket`]) until that end is closed. It sends none that the pair has no room for.
//!
//! The reply to 20 has the end of a pair attached, on which the daemon sends each event as a JSON object until that
//! end is closed. It sends none that the pair has no room for, and counts them in the member `missed` of the next one.
//!
//! | offset | size | field of a copy |
//! |---|---|---|
//! | 0 | 4 | [`CAPTURE_MAGIC`] |
//! | 4 | 4 | flags: 1 sent, 2 encapsulated in UDP; ECN field in bits 2 and 3 |
//! | 8 | 8 | time in nanoseconds since 1970 |
//! | 16 | 8 | number of packets not passed so far |
//! | 24 | 28 | source, with its UDP port, or zeros |
//! | 52 | 28 | destination |
//! | 80 | rest | SCTP packet |
//!
//! | offset | size | field of a reply |
//! |---|---|---|
//! | 0 | 4 | [`REPLY_MAGIC`] |
//! | 4 | 4 | 0, or the error number of Linux |
//! | 8 | 4 | result of the call |
//! | 12 | 12 | [`Description`] of the socket, or zeros |
//! | 24 | rest | value |
//!
//! A [`Description`] has 12 bytes: flags (4), outbound streams (4), largest message in frames in bytes (4).
#![forbid(unsafe_code)]

mod capture;
mod description;
mod frame;
mod lease;
mod reply;
mod request;

pub use capture::{CAPTURE_MAGIC, CapturedPacket, MAX_CAPTURED};
pub use description::{DESCRIPTION, Description, Property};
pub use frame::{
    ADDRESS_LEN, FRAME_MAGIC, FrameKind, HEADER, Header, MAX_CONTROL, MAX_FRAME, MAX_PAYLOAD,
    MessageInfo, address_bytes,
};
pub use lease::{LEASE_FIELDS, LEASE_MAGIC, LeaseFrame, LeaseFrameKind, LeaseGrant, MAX_LEASED};
pub use reply::{MAX_ATTACHED, MAX_REPLY, NO_SOURCE, REPLY_MAGIC, Reply};
pub use request::{MAX_REQUEST, REQUEST_MAGIC, Request};

/// Environment variable with the path of the daemon's control socket.
pub const DAEMON_VARIABLE: &str = "CARRICK_DAEMON";

/// Environment variable that selects which SCTP sockets are Carrick's: `always`, `missing` or `never`.
pub const SOCKETS_VARIABLE: &str = "CARRICK_SOCKETS";

/// Path of the daemon's control socket, if no runtime directory of the user exists.
pub const SYSTEM_SOCKET: &str = "/run/carrick/socket";

/// Returns the path of the control socket in a user's runtime directory (`XDG_RUNTIME_DIR`).
pub fn user_socket(runtime_directory: &str) -> String {
    format!("{runtime_directory}/carrick/socket")
}

/// Decoding error: not a valid frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed frame")
    }
}

impl std::error::Error for Malformed {}

/// Returns the integer at an offset.
fn word(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let part = bytes.get(at..at + 4).and_then(|part| part.first_chunk());
    part.map(|part| u32::from_ne_bytes(*part)).ok_or(Malformed)
}

/// Returns the short integer at an offset.
fn half(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    let part = bytes.get(at..at + 2).and_then(|part| part.first_chunk());
    part.map(|part| u16::from_ne_bytes(*part)).ok_or(Malformed)
}
