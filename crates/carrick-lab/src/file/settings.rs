//! Parser of `[settings.NAME]`: parameters of associations, by the names of their fields in the
//! core.

use std::time::Duration;

use carrick_proto::cc::ALGORITHMS;
use carrick_proto::research::{
    AddressVerification, AfterTimeout, BufferSplitting, BundledDuplicates, DataRoute, FastestFirst,
    GapAckCount, GapSacks, LossDetection, LowestRttForGapSacks, MarkedData, Multipath,
    OtherPathOnDuplicates, Policies, PrimaryFirst, PrimaryOnly, ProtocolUnreachable, ReducedPath,
    ReportScope, ReportsPerSack, RetransmissionRoute, RetransmitAsap, RetransmitInTurn,
    RetransmitOnAlternate, RetransmitOnLargestCwnd, RetransmitOnLargestSsthresh,
    RetransmitOnLowestLoss, RetransmitOnSamePath, RetransmitTimeoutsOnAlternate, RoundRobin,
    SackRoute, SackToSource, SplitBasis, UnlistedIForwardTsn, WindowAnnouncement, WindowGrowth,
};
use carrick_proto::{AssociationConfig, Extensions, PathMtuDiscovery, StreamScheduler};

use super::error::FileError;
use super::reader::{Item, Section};

const MAX: u64 = i64::MAX as u64;

/// Settings by name; those of the core come first.
#[derive(Debug)]
pub(super) struct Settings(Vec<(String, AssociationConfig)>);

impl Settings {
    /// Parses all `[settings.NAME]`, each of which may be based on an earlier one.
    pub(super) fn read(root: &Section<'_>) -> Result<Self, FileError> {
        let mut all = Self(vec![
            ("rfc9260".into(), AssociationConfig::rfc9260()),
            ("modern".into(), AssociationConfig::modern()),
        ]);
        for (name, section) in root.tables("settings")? {
            if all.0.iter().any(|(known, _)| known == name) {
                return Err(section.error("the name is reserved for settings of the core"));
            }
            let mut config = match section.get("base") {
                Some(base) => all.find(&base)?,
                None => AssociationConfig::rfc9260(),
            };
            association(&section, &mut config)?;
            section.finish()?;
            config
                .validate()
                .map_err(|error| section.error(error.to_string()))?;
            all.0.push((name.into(), config));
        }
        Ok(all)
    }

    /// Returns the settings that an item names.
    pub(super) fn find(&self, item: &Item<'_>) -> Result<AssociationConfig, FileError> {
        let choices: Vec<(&str, &AssociationConfig)> = self
            .0
            .iter()
            .map(|(name, config)| (name.as_str(), config))
            .collect();
        item.choice(&choices).cloned()
    }
}

fn association(section: &Section<'_>, config: &mut AssociationConfig) -> Result<(), FileError> {
    timers(section, config)?;
    counts(section, config)?;
    buffers(section, config)?;
    flags(section, config)?;
    section.set("scheduler", &mut config.streams.scheduler, |i| {
        i.choice(&SCHEDULERS)
    })?;
    if let Some(item) = section.get("path_mtu_discovery") {
        config.mtu.path_mtu_discovery = item.optional(mtu_discovery)?;
    }
    if let Some(item) = section.get("extensions") {
        extensions(&item.section()?, &mut config.extensions)?;
    }
    if let Some(item) = section.get("policies") {
        policies(&item.section()?, &mut config.research.policies)?;
    }
    Ok(())
}

const SCHEDULERS: [(&str, StreamScheduler); 6] = [
    ("first-come", StreamScheduler::FirstCome),
    ("round-robin", StreamScheduler::RoundRobin),
    (
        "round-robin-per-packet",
        StreamScheduler::RoundRobinPerPacket,
    ),
    ("priority", StreamScheduler::Priority),
    ("fair-bandwidth", StreamScheduler::FairBandwidth),
    ("weighted-fair", StreamScheduler::WeightedFair),
];

fn timers(section: &Section<'_>, config: &mut AssociationConfig) -> Result<(), FileError> {
    let all: [(&'static str, &mut Duration); 7] = [
        ("rto_initial", &mut config.timers.rto_initial),
        ("rto_min", &mut config.timers.rto_min),
        ("rto_max", &mut config.timers.rto_max),
        ("valid_cookie_life", &mut config.timers.valid_cookie_life),
        (
            "max_cookie_life_increment",
            &mut config.timers.max_cookie_life_increment,
        ),
        ("hb_interval", &mut config.paths.hb_interval),
        ("sack_delay", &mut config.timers.sack_delay),
    ];
    for (key, field) in all {
        section.set(key, field, Item::time)?;
    }
    section.set("shutdown_guard", &mut config.timers.shutdown_guard, |i| {
        i.optional(Item::time)
    })
}

fn counts(section: &Section<'_>, config: &mut AssociationConfig) -> Result<(), FileError> {
    let read = |item: &Item<'_>| item.whole(0..=u64::from(u32::MAX)).map(|n| n as u32);
    let all: [(&'static str, &mut u32); 7] = [
        ("max_burst", &mut config.transmission.max_burst),
        (
            "slow_start_limit",
            &mut config.transmission.slow_start_limit,
        ),
        (
            "association_max_retrans",
            &mut config.paths.association_max_retrans,
        ),
        ("path_max_retrans", &mut config.paths.path_max_retrans),
        (
            "max_init_retransmits",
            &mut config.timers.max_init_retransmits,
        ),
        ("hb_max_burst", &mut config.paths.hb_max_burst),
        ("sack_frequency", &mut config.timers.sack_frequency),
    ];
    for (key, field) in all {
        section.set(key, field, read)?;
    }
    let all: [(&'static str, &mut Option<u32>); 3] = [
        (
            "potentially_failed_max_retrans",
            &mut config.paths.potentially_failed_max_retrans,
        ),
        (
            "primary_switchover_max_retrans",
            &mut config.paths.primary_switchover_max_retrans,
        ),
        ("no_progress_after", &mut config.timers.no_progress_after),
    ];
    for (key, field) in all {
        section.set(key, field, |item| item.optional(read))?;
    }
    let all: [(&'static str, &mut u16); 3] = [
        ("outbound_streams", &mut config.streams.outbound_streams),
        (
            "max_inbound_streams",
            &mut config.streams.max_inbound_streams,
        ),
        (
            "max_outbound_streams",
            &mut config.streams.max_outbound_streams,
        ),
    ];
    for (key, field) in all {
        section.set(key, field, |item| item.whole(1..=65_535).map(|n| n as u16))?;
    }
    let all: [(&'static str, &mut usize); 3] = [
        (
            "receive_buffer_chunks",
            &mut config.buffers.receive_buffer_chunks,
        ),
        (
            "send_buffer_messages",
            &mut config.buffers.send_buffer_messages,
        ),
        ("max_paths", &mut config.paths.max_paths),
    ];
    for (key, field) in all {
        section.set(key, field, |item| item.whole(1..=MAX).map(|n| n as usize))?;
    }
    Ok(())
}

fn buffers(section: &Section<'_>, config: &mut AssociationConfig) -> Result<(), FileError> {
    let read = |item: &Item<'_>| item.size(0..=MAX).map(|n| n as usize);
    let all: [(&'static str, &mut usize); 4] = [
        ("receive_buffer", &mut config.buffers.receive_buffer),
        ("message_overhead", &mut config.buffers.message_overhead),
        ("send_buffer", &mut config.buffers.send_buffer),
        ("path_mtu", &mut config.mtu.path_mtu),
    ];
    for (key, field) in all {
        section.set(key, field, read)?;
    }
    let all: [(&'static str, &mut Option<usize>); 3] = [
        ("max_receive_buffer", &mut config.buffers.max_receive_buffer),
        ("max_send_buffer", &mut config.buffers.max_send_buffer),
        ("max_payload", &mut config.mtu.max_payload),
    ];
    for (key, field) in all {
        section.set(key, field, |item| item.optional(read))?;
    }
    Ok(())
}

fn flags(section: &Section<'_>, config: &mut AssociationConfig) -> Result<(), FileError> {
    let all: [(&'static str, &mut bool); 10] = [
        (
            "expose_potentially_failed",
            &mut config.paths.expose_potentially_failed,
        ),
        ("heartbeat", &mut config.paths.heartbeat),
        ("fragment", &mut config.mtu.fragment),
        ("nagle", &mut config.transmission.nagle),
        (
            "sender_sws_avoidance",
            &mut config.research.sender_sws_avoidance,
        ),
        (
            "receiver_sws_avoidance",
            &mut config.research.receiver_sws_avoidance,
        ),
        ("monitor_pairs", &mut config.paths.monitor_pairs),
        (
            "dynamic_addresses_without_authentication",
            &mut config.security.dynamic_addresses_without_authentication,
        ),
        ("wildcard_addresses", &mut config.paths.wildcard_addresses),
        ("wildcard_peers", &mut config.paths.wildcard_peers),
    ];
    for (key, field) in all {
        section.set(key, field, Item::flag)?;
    }
    Ok(())
}

fn mtu_discovery(item: &Item<'_>) -> Result<PathMtuDiscovery, FileError> {
    let section = item.section()?;
    let mut found = PathMtuDiscovery::default();
    let size = |item: &Item<'_>| item.size(576..=65_535).map(|n| n as usize);
    section.set("base_mtu", &mut found.base_mtu, size)?;
    section.set("max_probed_mtu", &mut found.max_probed_mtu, size)?;
    section.set("max_probes", &mut found.max_probes, |i| {
        i.whole(1..=100).map(|n| n as u32)
    })?;
    section.set("probe_timer", &mut found.probe_timer, Item::time)?;
    section.set("raise_timer", &mut found.raise_timer, Item::time)?;
    section.finish()?;
    Ok(found)
}

fn extensions(section: &Section<'_>, all: &mut Extensions) -> Result<(), FileError> {
    let fields: [(&'static str, &mut bool); 9] = [
        ("partial_reliability", &mut all.partial_reliability),
        ("authentication", &mut all.authentication),
        ("dynamic_addresses", &mut all.dynamic_addresses),
        ("reconfiguration", &mut all.reconfiguration),
        ("interleaving", &mut all.interleaving),
        ("ecn", &mut all.ecn),
        (
            "interleaved_partial_reliability",
            &mut all.interleaved_partial_reliability,
        ),
        ("nr_sack", &mut all.nr_sack),
        ("zero_checksum", &mut all.zero_checksum),
    ];
    for (key, field) in fields {
        section.set(key, field, Item::flag)?;
    }
    section.finish()
}

const WINDOWS: [(&str, WindowAnnouncement); 3] = [
    ("fitting", WindowAnnouncement::Fitting),
    ("true", WindowAnnouncement::True),
    ("payload-only", WindowAnnouncement::PayloadOnly),
];

/// Parses behaviour of implementations that differs from RFC 9260.
fn before_rfc_9260(section: &Section<'_>, all: &mut Policies) -> Result<(), FileError> {
    section.set("marked_data", &mut all.marked_data, |i| {
        i.choice(&[
            ("holds-path", MarkedData::HoldsPath),
            ("holds-all", MarkedData::HoldsAll),
        ])
    })?;
    section.set("reduced_path", &mut all.reduced_path, |i| {
        i.choice(&[
            ("of-loss", ReducedPath::OfLoss),
            ("of-sack", ReducedPath::OfSack),
        ])
    })?;
    section.set("gap_ack_count", &mut all.gap_ack_count, |i| {
        i.choice(&[
            ("once", GapAckCount::Once),
            ("every-sack", GapAckCount::EverySack),
        ])
    })?;
    section.set("address_verification", &mut all.address_verification, |i| {
        i.choice(&[
            ("heartbeat", AddressVerification::Heartbeat),
            ("trust", AddressVerification::Trust),
        ])
    })
}

fn policies(section: &Section<'_>, all: &mut Policies) -> Result<(), FileError> {
    let sack_routes: [&'static dyn SackRoute; 3] =
        [&SackToSource, &LowestRttForGapSacks, &OtherPathOnDuplicates];
    let sack_routes = sack_routes.map(|route| (route.name(), route));
    let retransmission_routes: [&'static dyn RetransmissionRoute; 8] = [
        &RetransmitTimeoutsOnAlternate,
        &RetransmitOnAlternate,
        &RetransmitOnSamePath,
        &RetransmitAsap,
        &RetransmitOnLargestCwnd,
        &RetransmitOnLargestSsthresh,
        &RetransmitOnLowestLoss,
        &RetransmitInTurn,
    ];
    let retransmission_routes = retransmission_routes.map(|route| (route.name(), route));
    let algorithms = ALGORITHMS.map(|algorithm| (algorithm.name(), algorithm));
    before_rfc_9260(section, all)?;
    section.set("sack_route", &mut all.sack_route, |i| {
        i.choice(&sack_routes)
    })?;
    section.set("retransmission_route", &mut all.retransmission_route, |i| {
        i.choice(&retransmission_routes)
    })?;
    section.set("congestion", &mut all.congestion, |i| i.choice(&algorithms))?;
    section.set("missing_reports", &mut all.missing_reports, |i| {
        i.whole(1..=255).map(|n| n as u8)
    })?;
    section.set("window_announcement", &mut all.window_announcement, |i| {
        i.choice(&WINDOWS)
    })?;
    section.set("protocol_unreachable", &mut all.protocol_unreachable, |i| {
        i.choice(&[
            ("abort", ProtocolUnreachable::Abort),
            (
                "abort-after-silence",
                ProtocolUnreachable::AbortAfterSilence,
            ),
        ])
    })?;
    section.set("after_timeout", &mut all.after_timeout, |i| {
        i.choice(&[
            ("one-packet", AfterTimeout::OnePacket),
            ("one-window", AfterTimeout::OneWindow),
        ])
    })?;
    section.set(
        "unlisted_i_forward_tsn",
        &mut all.unlisted_i_forward_tsn,
        |i| {
            i.choice(&[
                ("abort", UnlistedIForwardTsn::Abort),
                ("take", UnlistedIForwardTsn::Take),
            ])
        },
    )?;
    section.set("bundled_duplicates", &mut all.bundled_duplicates, |i| {
        i.choice(&[
            ("report-at-once", BundledDuplicates::ReportAtOnce),
            ("report-later", BundledDuplicates::ReportLater),
        ])
    })?;
    section.set("loss_detection", &mut all.loss_detection, |i| {
        i.choice(&[
            ("missing-reports", LossDetection::MissingReports),
            ("every-report", LossDetection::EveryReport),
            ("rack", LossDetection::Rack),
        ])
    })?;
    let flags: [(&'static str, &mut bool); 5] = [
        ("count_data_header", &mut all.count_data_header),
        (
            "repeated_fast_retransmit",
            &mut all.repeated_fast_retransmit,
        ),
        ("tail_loss_probe", &mut all.tail_loss_probe),
        (
            "proportional_rate_reduction",
            &mut all.proportional_rate_reduction,
        ),
        ("undo_spurious", &mut all.undo_spurious),
    ];
    for (key, field) in flags {
        section.set(key, field, Item::flag)?;
    }
    if let Some(item) = section.get("multipath") {
        multipath(&item.section()?, &mut all.multipath)?;
    }
    section.finish()
}

fn multipath(section: &Section<'_>, all: &mut Multipath) -> Result<(), FileError> {
    let routes: [&'static dyn DataRoute; 4] =
        [&PrimaryOnly, &PrimaryFirst, &RoundRobin, &FastestFirst];
    let routes = routes.map(|route| (route.name(), route));
    section.set("data_route", &mut all.data_route, |i| i.choice(&routes))?;
    section.set("report_scope", &mut all.report_scope, |i| {
        i.choice(&[
            ("association", ReportScope::Association),
            ("path", ReportScope::Path),
        ])
    })?;
    section.set("reports_per_sack", &mut all.reports_per_sack, |i| {
        i.choice(&[
            ("one", ReportsPerSack::One),
            ("packets", ReportsPerSack::Packets),
        ])
    })?;
    section.set("window_growth", &mut all.window_growth, |i| {
        i.choice(&[
            ("any-acknowledgement", WindowGrowth::AnyAcknowledgement),
            ("pseudo-cumulative", WindowGrowth::PseudoCumulative),
        ])
    })?;
    section.set("buffer_splitting", &mut all.buffer_splitting, |i| {
        i.choice(&[
            ("none", BufferSplitting::None),
            ("sender", BufferSplitting::Sender),
            ("receiver", BufferSplitting::Receiver),
            ("both", BufferSplitting::Both),
        ])
    })?;
    section.set("split_basis", &mut all.split_basis, |i| {
        i.choice(&[
            ("outstanding", SplitBasis::Outstanding),
            ("buffered", SplitBasis::Buffered),
        ])
    })?;
    section.set("gap_sacks", &mut all.gap_sacks, |i| {
        i.choice(&[
            ("at-once", GapSacks::AtOnce),
            ("delayed-across-paths", GapSacks::DelayedAcrossPaths),
        ])
    })?;
    section.finish()
}
