//! Settings of a socket that options change, and those of its future associations.

use std::collections::BTreeMap;
use std::time::Duration;

use carrick_proto::{AssociationConfig, portable_struct};

use crate::config::Config;
use crate::linux::millis;

/// Limit of blocking calls of a socket; `None` for none.
pub type Timeout = Option<Duration>;

/// `SCTP_PF_EXPOSE_UNSET` and `SCTP_PF_EXPOSE_ENABLE` of Linux; 1 is `SCTP_PF_EXPOSE_DISABLE`
pub(crate) const SCTP_PF_EXPOSE_UNSET: u32 = 0;
pub(crate) const SCTP_PF_EXPOSE_ENABLE: u32 = 2;

/// Options of a socket. Accepted and branched-off sockets inherit them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Parameters of future associations.
    pub(crate) config: AssociationConfig,
    pub(crate) send: SendDefaults,
    /// Subscribed notifications of future associations; bit n is type 0x8000 + n.
    pub(crate) events: u16,
    pub(crate) context: u32,
    pub(crate) autoclose: u32,
    pub(crate) recv_rcvinfo: bool,
    pub(crate) recv_nxtinfo: bool,
    pub(crate) fragment_interleave: bool,
    /// `SCTP_PARTIAL_DELIVERY_POINT` in bytes. No message up to this size is delivered in parts: it fits
    /// into the receive buffer.
    pub(crate) partial_delivery_point: u32,
    pub(crate) mapped_v4: bool,
    pub(crate) v6_only: bool,
    pub(crate) reuse_address: bool,
    /// `SO_REUSEPORT`
    pub(crate) reuse_port: bool,
    /// `SCTP_REUSE_PORT`
    pub(crate) sctp_reuse_port: bool,
    /// Seconds of `SO_LINGER`, if it is on.
    pub(crate) linger: Option<u32>,
    pub(crate) receive_timeout: Timeout,
    pub(crate) send_timeout: Timeout,
    /// UDP port of future peers.
    pub(crate) encapsulation: Option<u16>,
    /// `SCTP_EXPOSE_POTENTIALLY_FAILED_STATE`
    pub(crate) exposed_pf: u32,
    /// Discovery of the path MTU is on (`SPP_PMTUD_ENABLE`).
    pub(crate) discovers_mtu: bool,
    /// DSCP of `SCTP_PEER_ADDR_PARAMS` in the six upper bits. `IP_TOS` and `IPV6_TCLASS` apply without it.
    pub(crate) dscp: Option<u8>,
    /// Values of options that are only reported, and of `IP_TOS` and `IPV6_TCLASS`, by level and name.
    pub(crate) reported: BTreeMap<(u32, u32), u32>,
}

portable_struct! {
    Options {
        config, send, events, context, autoclose, recv_rcvinfo, recv_nxtinfo, fragment_interleave,
        partial_delivery_point, mapped_v4, v6_only,
        reuse_address, reuse_port, sctp_reuse_port, linger, receive_timeout, send_timeout, encapsulation,
        exposed_pf, discovers_mtu, dscp, reported,
    }
    check Options::is_valid
}

impl Options {
    fn is_valid(&self) -> bool {
        self.config.validate().is_ok()
    }

    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.association.clone(),
            send: SendDefaults::default(),
            events: 0,
            context: 0,
            autoclose: 0,
            recv_rcvinfo: false,
            recv_nxtinfo: false,
            // Interleaving (RFC 8260) needs it.
            fragment_interleave: config.association.extensions.interleaving,
            partial_delivery_point: 0,
            mapped_v4: true,
            v6_only: false,
            reuse_address: false,
            reuse_port: false,
            sctp_reuse_port: false,
            linger: None,
            receive_timeout: None,
            send_timeout: None,
            encapsulation: config.encapsulation,
            exposed_pf: if config.association.paths.expose_potentially_failed {
                SCTP_PF_EXPOSE_ENABLE
            } else {
                SCTP_PF_EXPOSE_UNSET
            },
            discovers_mtu: true,
            dscp: None,
            reported: BTreeMap::new(),
        }
    }

    /// Returns whether the socket shares its port with others that do, also for listening.
    pub(crate) fn shares_port(&self) -> bool {
        self.reuse_port || self.sctp_reuse_port
    }

    /// Returns the size of the send buffer in bytes (`SO_SNDBUF`).
    pub(crate) fn send_buffer(&self) -> usize {
        self.config.buffers.send_buffer
    }

    /// Returns the life of cookies in milliseconds.
    pub(crate) fn cookie_life(&self) -> u32 {
        millis(self.config.timers.valid_cookie_life)
    }

    /// Returns the size of the receive buffer in bytes (`SO_RCVBUF`).
    pub(crate) fn receive_buffer(&self) -> usize {
        self.config.buffers.receive_buffer
    }
}

/// Attributes of messages whose ancillary data has none (`SCTP_DEFAULT_SNDINFO`,
/// `SCTP_DEFAULT_SEND_PARAM`, `SCTP_DEFAULT_PRINFO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SendDefaults {
    pub(crate) stream: u16,
    pub(crate) flags: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    pub(crate) time_to_live: u32,
    pub(crate) policy: u16,
    pub(crate) value: u32,
}

portable_struct! { SendDefaults { stream, flags, ppid, context, time_to_live, policy, value } }
