//! Parameters of both sides, drawn from the first bytes of the input.

use std::sync::Arc;
use std::time::Duration;

use carrick_proto::cc::{Bbr, Algorithm, CmtRpV1, CmtRpV2, Cubic, Lia, Olia, RateBased, Rfc2960};
use carrick_proto::research::{
    AfterTimeout, BufferSplitting, BundledDuplicates, DataRoute, GapSacks, LossDetection,
    Multipath, Policies, ReportScope, ReportsPerSack, RetransmissionRoute, SackRoute, SwsAvoidance,
    WindowAnnouncement, WindowGrowth,
};
use carrick_proto::{
    AssociationConfig, AuthenticationConfig, ChunkType, Extensions, Grants, HmacId, LowerLayer,
    PathMtuDiscovery, SharedKey, SharedKeyId, StreamScheduler,
};

use crate::input::Input;
use crate::protection;

/// Number of keys that the users have; 0 is the null key.
pub const KEYS: u16 = 4;

/// Packet size limit of links in a world without a limit.
const ANY_SIZE: usize = usize::MAX;

pub struct WorldSettings {
    pub sides: [AssociationConfig; 2],
    /// Addresses of each side.
    pub addresses: usize,
    /// True if the world has extensions and operations on them.
    pub extended: bool,
    /// Maximum size of a packet with its IP header, where the sender searches for the path MTU.
    pub link_mtu: usize,
    /// Initial UDP ports by which the addresses of each side are reached; `None` for plain IP.
    pub ports: [[Option<u16>; 3]; 2],
}

/// Returns the secret of a key, which both users share.
pub fn key(id: u16) -> SharedKey {
    SharedKey {
        id: SharedKeyId(id),
        secret: vec![id as u8; usize::from(id) * 9].into(),
    }
}

impl WorldSettings {
    pub fn draw(input: &mut Input<'_>) -> Self {
        let (flags, sizes) = (input.byte(), input.byte());
        let base = base(flags, sizes);
        // Inputs of the time before the extensions have this bit clear.
        let extended = sizes & 0x80 != 0;
        let mut sides = [base.clone(), base];
        let mut link_mtu = ANY_SIZE;
        let mut ports = [[None; 3]; 2];
        if extended {
            let link = input.byte();
            link_mtu = [ANY_SIZE, 1280, 1400, 1500][usize::from(link & 3)];
            for side in &mut sides {
                extend(side, input);
            }
            // The same for the extensions added after these, and for the last ones.
            if link & 4 != 0 {
                for side in &mut sides {
                    extend_further(side, input);
                }
            }
            if link & 8 != 0 {
                for end in [0, 1] {
                    ports[end] = encapsulation(end, input.byte());
                    sides[end].security.protection = protection::draw(input.byte());
                }
            }
        }
        Self {
            sides,
            addresses: if flags & 0x80 == 0 { 2 } else { 3 },
            extended,
            link_mtu,
            ports,
        }
    }
}

/// Returns the UDP port of each address: one bit per address selects UDP, another a shared port.
fn encapsulation(end: usize, bits: u8) -> [Option<u16>; 3] {
    [0, 1, 2].map(|n: u16| {
        let port = 4000 + 1000 * end as u16 + if bits & 8 == 0 { 0 } else { n };
        (bits >> n & 1 != 0).then_some(port)
    })
}

/// Returns the settings that both sides share.
fn base(flags: u8, sizes: u8) -> AssociationConfig {
    // Small chunks only with a small buffer, because they take the most time.
    let tiny = [7, 101][usize::from(sizes >> 3 & 1)];
    AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = [1500, 4000, 20_000, 100_000][usize::from(sizes & 3)];
        c.buffers.receive_buffer_chunks = [16, 4096][usize::from(sizes >> 2 & 1)];
        c.buffers.send_buffer = [3000, 100_000][usize::from(sizes >> 3 & 1)];
        c.mtu.path_mtu = [1500, 576, 1300, 9000][usize::from(sizes >> 4 & 3)];
        c.mtu.max_payload = [None, Some(tiny)][usize::from(sizes >> 6 & 1)];
        c.transmission.nagle = flags & 1 != 0;
        c.paths.monitor_pairs = flags & 2 != 0;
        let limit = [SwsAvoidance::Packets, SwsAvoidance::Below(3000)][usize::from(sizes >> 7)];
        let silly = |off: u8| if off == 0 { limit } else { SwsAvoidance::Off };
        c.research.sender_sws_avoidance = silly(flags & 4);
        c.research.receiver_sws_avoidance = silly(flags & 8);
        c.streams.outbound_streams = [3, 20][usize::from(flags >> 4 & 1)];
        c.streams.max_inbound_streams = [10, 2][usize::from(flags >> 5 & 1)];
        c.paths.hb_interval = Duration::from_secs(5);
        c.timers.rto_max = Duration::from_secs(10);
    })
}

/// Sets the extensions of one side from seven bytes.
fn extend(side: &mut AssociationConfig, input: &mut Input<'_>) {
    let offered = input.byte();
    let bit = |n: u8| offered >> n & 1 != 0;
    side.extensions = Extensions {
        partial_reliability: bit(0),
        authentication: bit(1),
        dynamic_addresses: bit(2),
        reconfiguration: bit(3),
        interleaving: bit(4),
        ecn: bit(5),
        ..Extensions::NONE
    };
    side.security.dynamic_addresses_without_authentication = bit(6);
    side.paths.wildcard_addresses = bit(7);
    side.security.authentication = authentication(input.half());
    recovery(side, input.byte());
    paths(side, input.byte());
    let more = input.byte();
    side.streams.scheduler =
        StreamScheduler::ALL[usize::from(more & 7) % StreamScheduler::ALL.len()];
    side.streams.grants = Grants {
        reset_streams: more & 0x08 == 0,
        reset_association: more & 0x10 == 0,
        change_streams: more & 0x20 == 0,
    };
    side.buffers.max_receive_buffer = (more & 0x40 != 0).then_some(200_000);
    side.buffers.max_send_buffer = (more & 0x80 != 0).then_some(200_000);
    let few = input.byte();
    side.streams.max_outbound_streams = [u16::MAX, 21][usize::from(few & 1)];
    side.buffers.send_buffer_messages = [1 << 16, 5][usize::from(few >> 1 & 1)];
    side.research.policies.window_announcement = [
        WindowAnnouncement::Fitting,
        WindowAnnouncement::True,
        WindowAnnouncement::PayloadOnly,
        WindowAnnouncement::Fitting,
    ][usize::from(few >> 2 & 3)];
    side.timers.sack_frequency = [2, 1, 3, 4][usize::from(few >> 4 & 3)];
}

/// Sets further extensions of one side from three bytes.
fn extend_further(side: &mut AssociationConfig, input: &mut Input<'_>) {
    let offered = input.byte();
    let bit = |n: u8| offered >> n & 1 != 0;
    side.extensions.interleaved_partial_reliability = bit(0);
    side.extensions.nr_sack = bit(1);
    side.extensions.zero_checksum = bit(2);
    if bit(3) {
        side.security.lower_layer = LowerLayer::Dtls;
    }
    let policies = &mut side.research.policies;
    policies.repeated_fast_retransmit = bit(4);
    policies.after_timeout =
        [AfterTimeout::OnePacket, AfterTimeout::OneWindow][usize::from(bit(5))];
    policies.bundled_duplicates = [
        BundledDuplicates::ReportAtOnce,
        BundledDuplicates::ReportLater,
    ][usize::from(bit(6))];
    policies.multipath = multipath(input.byte());
    let windows = input.byte();
    let others: [Option<Arc<dyn Algorithm>>; 8] = [
        None,
        Some(Arc::new(CmtRpV1)),
        Some(Arc::new(CmtRpV2)),
        Some(Arc::new(Lia)),
        Some(Arc::new(Olia)),
        Some(Arc::new(Rfc2960)),
        Some(Arc::new(RateBased)),
        Some(Arc::new(Bbr)),
    ];
    if let Some(algorithm) = &others[usize::from(windows & 7)] {
        policies.congestion = algorithm.clone();
    }
    let routes: [Option<RetransmissionRoute>; 8] = [
        None,
        Some(RetransmissionRoute::Asap),
        Some(RetransmissionRoute::LargestCwnd),
        Some(RetransmissionRoute::LargestSsthresh),
        Some(RetransmissionRoute::LowestLoss),
        None,
        None,
        None,
    ];
    if let Some(route) = routes[usize::from(windows >> 3 & 7)] {
        policies.retransmission_route = route;
    }
}

/// Returns the policy for concurrent paths.
fn multipath(bits: u8) -> Multipath {
    let bit = |n: u8| usize::from(bits >> n & 1);
    let routes = [
        DataRoute::PrimaryOnly,
        DataRoute::RoundRobin,
        DataRoute::FastestFirst,
        DataRoute::PrimaryFirst,
    ];
    Multipath {
        data_route: routes[usize::from(bits & 3)],
        report_scope: [ReportScope::Association, ReportScope::Path][bit(2)],
        reports_per_sack: [ReportsPerSack::One, ReportsPerSack::Packets][bit(3)],
        window_growth: [
            WindowGrowth::AnyAcknowledgement,
            WindowGrowth::PseudoCumulative,
        ][bit(4)],
        gap_sacks: [GapSacks::AtOnce, GapSacks::DelayedAcrossPaths][bit(5)],
        buffer_splitting: [
            BufferSplitting::None,
            BufferSplitting::Sender,
            BufferSplitting::Receiver,
            BufferSplitting::Both,
        ][usize::from(bits >> 6)],
        ..Multipath::default()
    }
}

/// Chunks that require authentication, except those of a peer without keys: COOKIE ECHO after
/// a restart, ABORT out of the blue, ERROR for a stale cookie.
fn authentication(bits: u16) -> AuthenticationConfig {
    let possible = [
        ChunkType::DATA,
        ChunkType::I_DATA,
        ChunkType::SACK,
        ChunkType::FORWARD_TSN,
        ChunkType::RE_CONFIG,
        ChunkType::HEARTBEAT,
        ChunkType::HEARTBEAT_ACK,
        ChunkType::COOKIE_ACK,
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ECNE,
        ChunkType::PAD,
    ];
    let required = (0..).zip(possible).filter(|(n, _)| bits >> n & 1 != 0);
    AuthenticationConfig {
        required: required.map(|(_, kind)| kind).collect(),
        algorithms: match bits >> 12 & 1 {
            0 => vec![HmacId::SHA_256, HmacId::SHA_1],
            _ => vec![HmacId::SHA_1],
        },
        keys: vec![key(1)],
        active: SharedKeyId(bits >> 13 & 1),
        ..AuthenticationConfig::default()
    }
}

/// Sets the loss detection and recovery.
fn recovery(side: &mut AssociationConfig, bits: u8) {
    let bit = |n: u8| bits >> n & 1 != 0;
    let modern = Policies::modern();
    let policies = &mut side.research.policies;
    if bit(0) {
        policies.congestion = Arc::new(Cubic);
    }
    if bit(1) {
        policies.loss_detection = LossDetection::Rack;
    }
    policies.tail_loss_probe = bit(2);
    policies.proportional_rate_reduction = bit(3);
    policies.undo_spurious = bit(4);
    if bit(5) {
        policies.protocol_unreachable = modern.protocol_unreachable;
    }
    side.transmission.max_burst = [4, 10][usize::from(bit(6))];
    policies.count_data_header = !bit(7);
}

/// Sets failover, path MTU discovery and encapsulation.
fn paths(side: &mut AssociationConfig, bits: u8) {
    side.paths.potentially_failed_max_retrans =
        [None, Some(0), Some(1), Some(3)][usize::from(bits & 3)];
    side.paths.primary_switchover_max_retrans = (bits & 4 != 0).then_some(6);
    side.paths.expose_potentially_failed = bits & 8 == 0;
    side.mtu.path_mtu_discovery = (bits & 0x10 != 0).then(|| PathMtuDiscovery {
        base_mtu: 1200,
        max_probed_mtu: 9000,
        raise_timer: Duration::from_secs(30),
        ..PathMtuDiscovery::default()
    });
    let sacks = [
        SackRoute::Source,
        SackRoute::Source,
        SackRoute::LowestRttForGaps,
        SackRoute::OtherOnDuplicates,
    ];
    side.research.policies.sack_route =
        sacks[usize::from(bits >> 5 & 1) * 2 + usize::from(bits >> 6 & 1)];
    let routes = [
        RetransmissionRoute::TimeoutsOnAlternate,
        RetransmissionRoute::AllOnAlternate,
        RetransmissionRoute::SamePath,
    ];
    side.research.policies.retransmission_route = routes[usize::from(bits >> 6 & 3) % 3];
}
