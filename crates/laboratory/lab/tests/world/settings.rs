//! Random parameters of associations.
//!
//! In a world that is to survive, no side abandons the association: the retransmission limits are
//! out of reach. In a world with a permanent failure they are small.

use std::sync::Arc;
use std::time::Duration;

use carrick_proto::cc::{
    Algorithm, Bbr, CmtRpV1, CmtRpV2, Cubic, Lia, Olia, RateBased, Rfc2960, Rfc9260,
};
use carrick_proto::research::{
    AddressVerification, AfterTimeout, BufferSplitting, BundledDuplicates, DataRoute, GapAckCount,
    GapSacks, LossDetection, MarkedData, Multipath, Policies, ProtocolUnreachable, ReducedPath,
    ReportScope, ReportsPerSack, RetransmissionRoute, SackRoute, SplitBasis, SwsAvoidance,
    UnlistedIForwardTsn, WindowAnnouncement, WindowGrowth,
};
use carrick_proto::{
    AssociationConfig, ChunkType, Extensions, Grants, HmacId, LowerLayer, PathMtuDiscovery,
    StreamScheduler,
};

use super::dice::{Dice, Part};
use super::extras::Extras;
use super::plan::{Ending, Scale, WorldPlan};
use super::protection::SEALED_OVERHEAD;
use super::topology::Topology;

/// Number of retransmissions that no surviving world reaches.
const NEVER: u32 = 1 << 24;
/// Largest path MTU in bytes, found or configured.
const LARGEST_PACKET: u64 = 9000;

/// Length of the headers of IPv6, UDP, SCTP, AUTH and I-DATA, with padding.
const LARGEST_HEADERS: usize = 40 + 8 + 12 + 40 + 20 + 3;

/// Returns the parameters of one side.
pub(crate) fn settings(
    seed: u64,
    side: usize,
    plan: &WorldPlan,
    topology: &Topology,
    extras: &Extras,
) -> AssociationConfig {
    let mut dice = Dice::new(seed, Part::Settings(side));
    let dice = &mut dice;
    // Retransmissions of the largest packets, RTO.Max apart, must not fill the slowest link.
    let rto_max = dice
        .log_millis(1000, 20_000)
        .max(topology.longest_transmission(LARGEST_PACKET) * 4);
    let mut config = AssociationConfig::rfc9260().with(|c| {
        c.timers.rto_initial = dice.log_millis(100, 3000).min(rto_max);
        c.timers.rto_min = dice.log_millis(10, 1000);
        c.timers.rto_max = rto_max;
        c.transmission.max_burst = dice.range(1, 8) as u32;
        c.transmission.slow_start_limit = dice.pick(&[1, 1, 2, 8]);
        c.timers.valid_cookie_life = Duration::from_secs(3600);
        c.paths.path_max_retrans = dice.range(0, 6) as u32;
        c.paths.heartbeat = dice.chance(0.85);
        c.paths.hb_interval = dice.log_millis(1000, 30_000);
        c.paths.hb_max_burst = dice.range(1, 4) as u32;
        c.timers.sack_delay = dice.pick(&[0, 10, 200, 500].map(Duration::from_millis));
        c.timers.sack_frequency = dice.pick(&[1, 2, 2, 2, 3, 4]);
        c.streams.outbound_streams = dice.pick(&[1, 2, 10, 10, 100, 65_535]);
        c.streams.max_inbound_streams = dice.pick(&[1, 5, 65_535, 65_535]);
        c.mtu.fragment = dice.chance(0.95);
        c.transmission.nagle = dice.chance(0.6);
        let avoidance = [
            SwsAvoidance::Packets,
            SwsAvoidance::Packets,
            SwsAvoidance::Packets,
            SwsAvoidance::Off,
            SwsAvoidance::Below(3000),
        ];
        c.research.sender_sws_avoidance = dice.pick(&avoidance);
        c.research.receiver_sws_avoidance = dice.pick(&avoidance);
        // With a limit, the only path may be the one whose address is removed.
        c.paths.max_paths = match topology.loses_addresses() {
            true => 16,
            false => dice.pick(&[1, 2, 16, 16, 16]),
        };
        c.paths.monitor_pairs = dice.chance(0.2);
        c.timers.no_progress_after = dice.pick(&[None, Some(5), Some(20)]);
        // The worlds of the seeds stay the same.
        dice.chance(0.1);
        c.research.policies = policies(dice, topology);
    });
    buffers(&mut config, dice, plan, topology);
    limits(&mut config, dice, plan, extras);
    config.streams.scheduler = dice.pick(&StreamScheduler::ALL);
    config.extensions = extensions(&mut Dice::new(seed, Part::Extensions(side)));
    let mut partial = Dice::new(seed, Part::Partial(side));
    config.extensions.partial_reliability = partial.chance(0.75);
    config.extensions.interleaved_partial_reliability = partial.chance(0.75);
    config.extensions.nr_sack = partial.chance(0.75);
    config.extensions.zero_checksum = partial.chance(0.75);
    // A lower layer that protects packets passes none that was changed.
    if partial.chance(0.75) && !topology.corrupts {
        config.security.lower_layer = LowerLayer::Dtls;
    }
    authentication(&mut config, dice);
    failover(&mut config, &mut Dice::new(seed, Part::Failover(side)));
    multipath(
        &mut config.research.policies,
        &mut Dice::new(seed, Part::Multipath(side)),
    );
    let mut pacing = Dice::new(seed, Part::Pacing(side));
    if pacing.chance(0.15) {
        let bbr = pacing.chance(0.5);
        let controlled: Arc<dyn Algorithm> = if bbr {
            Arc::new(Bbr)
        } else {
            Arc::new(RateBased)
        };
        config.research.policies.congestion = controlled;
    }
    reconfiguration(&mut config, &mut Dice::new(seed, Part::Grants(side)));
    extras.apply(side, &mut config);
    if let (Some(mtu), true) = (topology.link_mtu, extras.offers[side]) {
        let fits = mtu - LARGEST_HEADERS - SEALED_OVERHEAD;
        config.mtu.max_payload = config.mtu.max_payload.map(|payload| payload.min(fits));
    }
    // The other path may have failed permanently.
    if !extras.disruptions.is_empty() {
        config.research.policies.sack_route = SackRoute::Source;
    }
    config
}

/// Extensions that a side supports.
fn extensions(dice: &mut Dice) -> Extensions {
    Extensions {
        ecn: dice.chance(0.7),
        interleaving: dice.chance(0.7),
        ..Extensions::NONE
    }
}

fn buffers(config: &mut AssociationConfig, dice: &mut Dice, plan: &WorldPlan, topology: &Topology) {
    // A buffer much smaller than a message causes partial delivery; 1 MiB through 1500 bytes takes
    // too long.
    let least = if plan.scale == Scale::Large {
        20_000
    } else {
        1500
    };
    config.buffers.receive_buffer = dice.log_size(least, 1 << 20);
    config.buffers.receive_buffer_chunks =
        dice.pick(&[1 << 16, 1 << 16, 1 << 16, dice_chunks(plan)]);
    config.buffers.message_overhead = dice.pick(&[0, 64, 128, 256]);
    config.buffers.send_buffer = dice.log_size(1000, 1 << 20);
    config.buffers.send_buffer_messages = dice.pick(&[1 << 16, 1 << 16, 1 << 16, 1, 7]);
    let larger = [None, None, Some(1 << 16), Some(2 << 20)];
    config.buffers.max_receive_buffer = dice.pick(&larger);
    config.buffers.max_send_buffer = dice.pick(&larger);
    let smallest = topology.smallest_mtu();
    config.mtu.path_mtu = dice.pick(&[1500, 1500, smallest, 9000, smallest + 123]);
    config.mtu.max_payload = match plan.scale {
        Scale::Large => dice.chance(0.2).then(|| dice.size(400, 2000)),
        _ => dice.chance(0.3).then(|| dice.log_size(40, 2000)),
    };
    if let Some(mtu) = topology.link_mtu {
        let fits = mtu - LARGEST_HEADERS;
        config.mtu.max_payload = Some(config.mtu.max_payload.map_or(fits, |p| p.min(fits)));
    }
}

/// Returns a small limit of chunks with which a world ends in time.
fn dice_chunks(plan: &WorldPlan) -> usize {
    if plan.scale == Scale::Small { 4 } else { 50 }
}

fn limits(config: &mut AssociationConfig, dice: &mut Dice, plan: &WorldPlan, extras: &Extras) {
    // After a lost ABORT, a late COOKIE ECHO may create an association without the keys of the
    // remaining one: neither side accepts packets of the other, and only error counters end them.
    let keyless = matches!(plan.ending, Ending::Abort { .. }) && extras.seals();
    if keyless || extras.sessions.is_one_sided() || matches!(plan.ending, Ending::Death { .. }) {
        config.paths.association_max_retrans = dice.range(1, 8) as u32;
        config.timers.max_init_retransmits = dice.range(1, 6) as u32;
        config.timers.shutdown_guard = dice.chance(0.5).then(|| dice.log_millis(5000, 60_000));
    } else {
        config.paths.association_max_retrans = NEVER;
        config.timers.max_init_retransmits = NEVER;
        config.timers.shutdown_guard = Some(Duration::from_secs(1_000_000));
    }
    // A peer that abandons a restart because of stale cookies could not report it to the remaining
    // side, which accepts no unprotected ABORT.
    if plan.short_cookies && !(extras.seals() && plan.ending.has_second_life()) {
        config.timers.valid_cookie_life = dice.log_millis(50, 2000);
        config.timers.max_cookie_life_increment = dice.pick(&[0, 1, 60].map(Duration::from_secs));
    }
}

/// Draws the permission of re-configurations by the peer.
fn reconfiguration(config: &mut AssociationConfig, dice: &mut Dice) {
    config.extensions.reconfiguration = dice.chance(0.7);
    config.streams.grants = Grants {
        reset_streams: dice.chance(0.9),
        reset_association: dice.chance(0.9),
        change_streams: dice.chance(0.9),
    };
    config.streams.max_outbound_streams = dice.pick(&[u16::MAX, u16::MAX, 20]);
}

/// Draws authentication, and announcements of address changes. Excluded are chunks of a peer
/// without keys: COOKIE ECHO after a restart, ABORT out of the blue, ERROR for a stale cookie.
fn authentication(config: &mut AssociationConfig, dice: &mut Dice) {
    let possible = [
        ChunkType::DATA,
        ChunkType::I_DATA,
        ChunkType::SACK,
        ChunkType::HEARTBEAT,
        ChunkType::HEARTBEAT_ACK,
        ChunkType::COOKIE_ACK,
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ECNE,
        ChunkType::CWR,
        ChunkType::PAD,
        ChunkType::FORWARD_TSN,
        ChunkType::I_FORWARD_TSN,
        ChunkType::NR_SACK,
        ChunkType::RE_CONFIG,
    ];
    config.extensions.authentication = dice.chance(0.6);
    config.extensions.dynamic_addresses = dice.chance(0.6);
    let required = possible.into_iter().filter(|_| dice.chance(0.3));
    config.security.authentication.required = required.collect();
    if dice.chance(0.3) {
        config.security.authentication.algorithms = vec![HmacId::SHA_1];
    }
}

/// Quick failover and path MTU discovery.
fn failover(config: &mut AssociationConfig, dice: &mut Dice) {
    let least = if dice.chance(0.5) {
        let errors = dice.pick(&[0, 0, 0, 1, 3]);
        config.paths.potentially_failed_max_retrans = Some(errors);
        errors
    } else {
        config.paths.path_max_retrans
    };
    config.paths.expose_potentially_failed = dice.chance(0.8);
    if dice.chance(0.3) {
        config.paths.primary_switchover_max_retrans = Some(least + dice.range(0, 3) as u32);
    }
    if dice.chance(0.4) {
        let base = dice.pick(&[1200, 1200, 1280, 600]);
        config.mtu.path_mtu_discovery = Some(PathMtuDiscovery {
            base_mtu: base,
            max_probed_mtu: dice.pick(&[1500, 9000, 9000, 1400]),
            max_probes: dice.range(1, 3) as u32,
            probe_timer: dice.log_millis(1000, 5000),
            raise_timer: dice.log_millis(5000, 600_000),
        });
    }
    config.mtu.black_hole_detection = dice.chance(0.5);
}

fn policies(dice: &mut Dice, topology: &Topology) -> Policies {
    let mut sack_routes = vec![
        SackRoute::Source,
        SackRoute::Source,
        SackRoute::LowestRttForGaps,
    ];
    // A rule that fails if the other path has failed permanently.
    if !topology.loses_addresses() {
        sack_routes.push(SackRoute::OtherOnDuplicates);
    }
    let routes = [
        RetransmissionRoute::TimeoutsOnAlternate,
        RetransmissionRoute::TimeoutsOnAlternate,
        RetransmissionRoute::AllOnAlternate,
        RetransmissionRoute::SamePath,
        RetransmissionRoute::InTurn,
    ];
    let congestion: [Arc<dyn Algorithm>; 5] = [
        Arc::new(Rfc9260),
        Arc::new(Rfc9260),
        Arc::new(Cubic),
        Arc::new(Cubic),
        Arc::new(Rfc2960),
    ];
    Policies {
        sack_route: dice.pick(&sack_routes),
        retransmission_route: dice.pick(&routes),
        missing_reports: dice.pick(&[3, 3, 4]),
        count_data_header: dice.chance(0.8),
        window_announcement: dice.pick(&[
            WindowAnnouncement::Fitting,
            WindowAnnouncement::True,
            WindowAnnouncement::PayloadOnly,
        ]),
        loss_detection: dice.pick(&[LossDetection::MissingReports, LossDetection::Rack]),
        tail_loss_probe: dice.chance(0.6),
        proportional_rate_reduction: dice.chance(0.5),
        undo_spurious: dice.chance(0.5),
        congestion: dice.pick(&congestion),
        protocol_unreachable: dice.pick(&[
            ProtocolUnreachable::Abort,
            ProtocolUnreachable::AbortAfterSilence,
        ]),
        multipath: Multipath::default(),
        repeated_fast_retransmit: dice.chance(0.3),
        after_timeout: dice.pick(&[AfterTimeout::OnePacket, AfterTimeout::OneWindow]),
        bundled_duplicates: dice.pick(&[
            BundledDuplicates::ReportAtOnce,
            BundledDuplicates::ReportLater,
        ]),
        marked_data: dice.pick(&[
            MarkedData::HoldsPath,
            MarkedData::HoldsPath,
            MarkedData::HoldsAll,
        ]),
        reduced_path: ReducedPath::OfLoss,
        gap_ack_count: GapAckCount::Once,
        address_verification: AddressVerification::Heartbeat,
        unlisted_i_forward_tsn: UnlistedIForwardTsn::Take,
    }
}

/// Draws concurrent multipath with all its options; half of the worlds do not use it.
fn multipath(policies: &mut Policies, dice: &mut Dice) {
    if dice.chance(0.5) {
        return;
    }
    let data = [
        DataRoute::RoundRobin,
        DataRoute::RoundRobin,
        DataRoute::FastestFirst,
        DataRoute::PrimaryFirst,
        DataRoute::PrimaryOnly,
    ];
    policies.multipath = Multipath {
        data_route: dice.pick(&data),
        report_scope: dice.pick(&[
            ReportScope::Path,
            ReportScope::Path,
            ReportScope::Association,
        ]),
        reports_per_sack: dice.pick(&[ReportsPerSack::Packets, ReportsPerSack::One]),
        window_growth: dice.pick(&[
            WindowGrowth::AnyAcknowledgement,
            WindowGrowth::PseudoCumulative,
        ]),
        buffer_splitting: dice.pick(&[
            BufferSplitting::None,
            BufferSplitting::Sender,
            BufferSplitting::Receiver,
            BufferSplitting::Both,
        ]),
        split_basis: dice.pick(&[SplitBasis::Outstanding, SplitBasis::Buffered]),
        gap_sacks: dice.pick(&[GapSacks::AtOnce, GapSacks::DelayedAcrossPaths]),
    };
    let routes = [
        RetransmissionRoute::TimeoutsOnAlternate,
        RetransmissionRoute::SamePath,
        RetransmissionRoute::Asap,
        RetransmissionRoute::LargestCwnd,
        RetransmissionRoute::LargestSsthresh,
        RetransmissionRoute::LowestLoss,
    ];
    policies.retransmission_route = dice.pick(&routes);
    let coupled: [Arc<dyn Algorithm>; 4] = [
        Arc::new(CmtRpV1),
        Arc::new(CmtRpV2),
        Arc::new(Lia),
        Arc::new(Olia),
    ];
    if dice.chance(0.6) {
        policies.congestion = dice.pick(&coupled);
    }
}
