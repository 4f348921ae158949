//! Parser of `[settings.NAME]`: parameters of associations, by the names of their fields in the
//! core.

use std::sync::Arc;

use carrick_proto::cc::{Algorithm, algorithms};
use carrick_proto::research::{
    AddressVerification, AfterTimeout, BufferSplitting, BundledDuplicates, DataRoute, GapAckCount,
    GapSacks, LossDetection, MarkedData, Multipath, Policies, ProtocolUnreachable, ReducedPath,
    ReportScope, ReportsPerSack, RetransmissionRoute, SackRoute, SplitBasis, SwsAvoidance,
    UnlistedIForwardTsn, WindowAnnouncement, WindowGrowth,
};
use carrick_proto::{AssociationConfig, PathMtuDiscovery, StreamScheduler};

use super::error::FileError;
use super::reader::{FromItem, Item, Section, keys, names};
use super::window_kept::WindowKept;

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
            ("signaling".into(), AssociationConfig::signaling()),
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
        let all = self.0.iter();
        let choices: Vec<_> = all.map(|(name, own)| (name.as_str(), own)).collect();
        item.choice(&choices).cloned()
    }
}

names! {
    StreamScheduler {
        "first-come": FirstCome,
        "round-robin": RoundRobin,
        "round-robin-per-packet": RoundRobinPerPacket,
        "priority": Priority,
        "fair-bandwidth": FairBandwidth,
        "weighted-fair": WeightedFair,
    }
    MarkedData { "holds-path": HoldsPath, "holds-all": HoldsAll }
    ReducedPath { "of-loss": OfLoss, "of-sack": OfSack }
    GapAckCount { "once": Once, "every-sack": EverySack }
    AddressVerification { "heartbeat": Heartbeat, "trust": Trust }
    WindowAnnouncement { "fitting": Fitting, "true": True, "payload-only": PayloadOnly }
    ProtocolUnreachable { "abort": Abort, "abort-after-silence": AbortAfterSilence }
    AfterTimeout { "one-packet": OnePacket, "one-window": OneWindow }
    UnlistedIForwardTsn { "abort": Abort, "take": Take }
    BundledDuplicates { "report-at-once": ReportAtOnce, "report-later": ReportLater }
    LossDetection {
        "missing-reports": MissingReports,
        "every-report": EveryReport,
        "rack": Rack,
    }
    ReportScope { "association": Association, "path": Path }
    ReportsPerSack { "one": One, "packets": Packets }
    WindowGrowth {
        "any-acknowledgement": AnyAcknowledgement,
        "pseudo-cumulative": PseudoCumulative,
    }
    BufferSplitting { "none": None, "sender": Sender, "receiver": Receiver, "both": Both }
    SplitBasis { "outstanding": Outstanding, "buffered": Buffered }
    GapSacks { "at-once": AtOnce, "delayed-across-paths": DelayedAcrossPaths }
}

fn association(section: &Section<'_>, config: &mut AssociationConfig) -> Result<(), FileError> {
    keys!(section, config.timers, Item::read;
        rto_initial, rto_min, rto_max, valid_cookie_life, max_cookie_life_increment, sack_delay,
        shutdown_guard, max_init_retransmits, sack_frequency, no_progress_after);
    keys!(section, config.paths, Item::read;
        hb_interval, heartbeat, hb_max_burst, association_max_retrans, path_max_retrans,
        potentially_failed_max_retrans, primary_switchover_max_retrans, expose_potentially_failed,
        monitor_pairs, wildcard_addresses, wildcard_peers);
    keys!(section, config.transmission, Item::read; max_burst, slow_start_limit, nagle);
    keys!(section, config.security, Item::read; dynamic_addresses_without_authentication);
    let streams = |item: &Item<'_>| item.whole(1..=65_535);
    keys!(section, config.streams, streams;
        outbound_streams, max_inbound_streams, max_outbound_streams);
    keys!(section, config.streams, Item::read; scheduler);
    let count = |item: &Item<'_>| item.whole(1..=MAX);
    keys!(section, config.buffers, count; receive_buffer_chunks, send_buffer_messages);
    keys!(section, config.paths, count; max_paths);
    let size = |item: &Item<'_>| item.size(0..=MAX);
    let limit = |item: &Item<'_>| item.optional(size);
    keys!(section, config.buffers, size; receive_buffer, message_overhead, send_buffer);
    keys!(section, config.buffers, limit; max_receive_buffer, max_send_buffer);
    keys!(section, config.mtu, size; path_mtu);
    keys!(section, config.mtu, limit; max_payload);
    keys!(section, config.mtu, Item::read; fragment, black_hole_detection);
    keys!(section, config.mtu, |item| item.optional(mtu_discovery); path_mtu_discovery);
    keys!(section, config.research, size; peer_chunk_overhead);
    keys!(section, config.research, sws_avoidance; sender_sws_avoidance, receiver_sws_avoidance);
    if let Some(item) = section.get("extensions") {
        item.table(|section| {
            keys!(section, config.extensions, Item::read;
                partial_reliability, authentication, dynamic_addresses, reconfiguration,
                interleaving, ecn, interleaved_partial_reliability, nr_sack, zero_checksum);
            Ok(())
        })?;
    }
    if let Some(item) = section.get("policies") {
        item.table(|section| policies(section, &mut config.research.policies))?;
    }
    Ok(())
}

/// Parses the avoidance of silly windows: that of RFC 9260, none, or a limit.
fn sws_avoidance(item: &Item<'_>) -> Result<SwsAvoidance, FileError> {
    match item.read() {
        Ok(true) => Ok(SwsAvoidance::Packets),
        Ok(false) => Ok(SwsAvoidance::Off),
        Err(_) => match item.size(1..=MAX) {
            Ok(limit) => Ok(SwsAvoidance::Below(limit)),
            Err(_) => Err(item.wrong("true, false, or a limit such as \"3000 bytes\"")),
        },
    }
}

fn mtu_discovery(item: &Item<'_>) -> Result<PathMtuDiscovery, FileError> {
    item.table(|section| {
        let mut found = PathMtuDiscovery::default();
        keys!(section, found, |item| item.size(576..=65_535); base_mtu, max_probed_mtu);
        keys!(section, found, |item| item.whole(1..=100); max_probes);
        keys!(section, found, Item::read; probe_timer, raise_timer);
        Ok(found)
    })
}

fn policies(section: &Section<'_>, all: &mut Policies) -> Result<(), FileError> {
    let sack_routes = SackRoute::ALL.map(|route| (route.name(), route));
    let retransmission_routes = RetransmissionRoute::ALL.map(|route| (route.name(), route));
    let own: [Arc<dyn Algorithm>; 1] = [Arc::new(WindowKept)];
    let algorithms = algorithms().into_iter().chain(own);
    let algorithms: Vec<_> = algorithms.map(|own| (own.name(), own)).collect();
    keys!(section, all, |item| item.choice(&sack_routes); sack_route);
    keys!(section, all, |item| item.choice(&retransmission_routes); retransmission_route);
    keys!(section, all, |item| item.choice(&algorithms); congestion);
    keys!(section, all, |item| item.whole(1..=255); missing_reports);
    keys!(section, all, Item::read;
        marked_data, reduced_path, gap_ack_count, address_verification, window_announcement,
        protocol_unreachable, after_timeout, unlisted_i_forward_tsn, bundled_duplicates,
        loss_detection, count_data_header, repeated_fast_retransmit, tail_loss_probe,
        proportional_rate_reduction, undo_spurious);
    if let Some(item) = section.get("multipath") {
        item.table(|section| multipath(section, &mut all.multipath))?;
    }
    Ok(())
}

fn multipath(section: &Section<'_>, all: &mut Multipath) -> Result<(), FileError> {
    let routes = DataRoute::ALL.map(|route| (route.name(), route));
    keys!(section, all, |item| item.choice(&routes); data_route);
    keys!(section, all, Item::read;
        report_scope, reports_per_sack, window_growth, buffer_splitting, split_basis, gap_sacks);
    Ok(())
}
