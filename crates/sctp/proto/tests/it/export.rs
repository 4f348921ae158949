//! Export and import of endpoints: handover to another process.

use std::sync::Arc;

use carrick_proto::cc::{
    Acknowledged, Algorithm, CongestionEvent, Controller, Parameters, algorithms,
};
use carrick_proto::export::{OLDEST_VERSION, VERSION};
use carrick_proto::research::{DataRoute, LossDetection, Policies, ReportScope};
use carrick_proto::{
    AssociationConfig, AssociationId, AssociationMut, Ecn, Endpoint, EndpointConfig, Event,
    ExportError, ImportConfig, ImportError, Reliability, Route, SendOptions, SharedKey,
    SharedKeyId, StreamDirection, StreamScheduler, Time,
};
use carrick_wire::{ChunkType, crc32c};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::*;

/// Bytes in front of the state: magic, version and length.
const HEADER: usize = 18;

/// Two endpoints with the configuration of this seed.
fn configured(seed: u64) -> World {
    let config = configuration(seed);
    let mut w = World::with(2, |_, c| c.association = config.clone());
    w.config = config;
    w
}

/// Handovers when the outputs have been drained, or none.
fn run(hands_over: bool, seed: u64, scenario: impl Fn(&mut World, u64)) -> World {
    let mut w = configured(seed);
    w.hands_over = hands_over;
    scenario(&mut w, seed);
    w
}

/// A pseudo-random number for this seed and purpose.
fn dice(seed: u64, purpose: u64) -> u64 {
    let mixed = (seed ^ purpose << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn configuration(seed: u64) -> AssociationConfig {
    let of = |purpose, count| dice(seed, purpose) % count;
    AssociationConfig::default().with(|c| {
        c.extensions.interleaving = of(1, 2) == 0;
        c.extensions.authentication = of(2, 2) == 0;
        c.extensions.dynamic_addresses = true;
        c.extensions.nr_sack = of(3, 2) == 0;
        c.security.authentication.required = vec![ChunkType::DATA];
        c.security.authentication.keys = vec![SharedKey {
            id: SharedKeyId(7),
            secret: pattern(20),
        }];
        c.buffers.receive_buffer = [3000, 20_000, 1 << 20][of(4, 3) as usize];
        c.streams.scheduler =
            StreamScheduler::ALL[of(5, StreamScheduler::ALL.len() as u64) as usize];
        c.streams.grants.reset_streams = true;
        c.streams.grants.reset_association = true;
        c.streams.grants.change_streams = true;
        c.mtu.path_mtu_discovery = (of(6, 2) == 0).then(Default::default);
        let policies = &mut c.research.policies;
        let known = algorithms();
        policies.congestion = known[of(8, known.len() as u64) as usize].clone();
        policies.loss_detection = [
            LossDetection::Rack,
            LossDetection::MissingReports,
            LossDetection::EveryReport,
        ][of(9, 3) as usize];
        if of(10, 3) == 0 {
            policies.multipath.data_route = DataRoute::RoundRobin;
            policies.multipath.report_scope =
                [ReportScope::Path, ReportScope::Association][of(11, 2) as usize];
        }
    })
}

/// Losses, duplicates and delays that depend on the number of the packet alone.
fn disturb(w: &mut World, seed: u64) {
    let mut n = 0;
    w.rule(move |_| {
        n += 1;
        match dice(seed, 1000 + n) % 20 {
            0..=1 => Verdict::Drop,
            2 => Verdict::Duplicate,
            3..=4 => Verdict::Delay(ms(dice(seed, 5000 + n) % 150)),
            _ => Verdict::Pass,
        }
    });
}

/// Set-up, transfer in both directions, re-configuration, addresses, keys, and shutdown, all disturbed.
fn everything(w: &mut World, seed: u64) {
    disturb(w, seed);
    w.config.timers.max_init_retransmits = 100;
    let a = w.begin_connect(&addresses(1));
    w.run_until(secs(500), |w| w.states() == [Some("Established"); 2]);
    let b = w.association(1);
    for step in 0..20 {
        for (end, id) in [(0, a), (1, b)] {
            act(w, seed, step, end, id);
        }
        w.run(ms(dice(seed, 9000 + step) % 400));
        for (end, id) in [(0, a), (1, b)] {
            if !dice(seed, 9100 + step).is_multiple_of(3) {
                w.receive(end, id);
            }
        }
    }
    let _ = w.ends[(seed % 2) as usize].shutdown(w.now, [a, b][(seed % 2) as usize]);
    for _ in 0..10 {
        w.run(secs(1));
        w.receive(0, a);
        w.receive(1, b);
    }
}

/// A call of the user.
fn act(w: &mut World, seed: u64, step: u64, end: usize, id: AssociationId) {
    let of = |purpose: u64| dice(seed, 20_000 + 1000 * step + 100 * end as u64 + purpose);
    let now = w.now;
    for n in 0..of(1) % 4 {
        let options = SendOptions {
            unordered: of(2).is_multiple_of(4),
            reliability: match of(3 + n) % 6 {
                0 => Reliability::Timed(ms(of(4) % 500)),
                1 => Reliability::Retransmissions(1),
                2 => Reliability::Priority(of(5) as u32 % 4),
                _ => Reliability::Full,
            },
            lifetime: (of(6).is_multiple_of(7)).then(|| ms(of(7) % 300)),
            path: None,
            ..SendOptions::on_stream((of(8 + n) % 10) as u16)
        };
        let size = 1 + of(20 + n) % [100, 5000, 30_000][of(9) as usize % 3];
        let _ = w.ends[end].send(now, id, options, pattern(size as usize));
    }
    let host = &mut w.ends[end];
    let mut change = |operation: &dyn Fn(&mut AssociationMut<'_>) -> bool| {
        if let Some(mut association) = host.association_mut(now, id) {
            operation(&mut association);
        }
    };
    // Operations may be refused.
    match of(40) % 24 {
        0 => change(&|a| {
            a.reset_streams(StreamDirection::Outgoing, &[1.into()])
                .is_ok()
        }),
        1 => change(&|a| a.reset_association().is_ok()),
        2 => change(&|a| a.add_streams(2, 1).is_ok()),
        3 => host.local_address_removed(now, addresses(end)[1]),
        4 => host.local_address_added(addresses(end)[1]),
        5 => change(&|a| a.activate_key(SharedKeyId(7)).is_ok()),
        6 => change(&|a| a.request_heartbeat(carrick_proto::PathId(0)).is_ok()),
        7 => change(&|a| a.set_primary(carrick_proto::PathId(1)).is_ok()),
        8 => change(&|a| {
            a.set_scheduler(StreamScheduler::ALL[of(41) as usize % 6]);
            true
        }),
        _ => {}
    }
}

/// Asserts that two worlds sent the same packets at the same times.
fn assert_same(one: &World, other: &World) {
    let packets = |w: &World| {
        w.log
            .iter()
            .map(|p| (p.time, p.from, p.route, p.bytes.clone()))
            .collect::<Vec<_>>()
    };
    let (one, other) = (packets(one), packets(other));
    let differs = one.iter().zip(&other).position(|(a, b)| a != b);
    if let Some(at) = differs {
        panic!("packet {at}: {:?} and {:?}", one[at], other[at]);
    }
    assert_eq!(one.len(), other.len());
}

/// RFC 9260, section 4
#[test]
fn successor_sends_what_its_predecessor_would() {
    for seed in 0..24 {
        assert_same(&run(false, seed, everything), &run(true, seed, everything));
    }
}

/// Busy endpoints: data queued, outstanding, held and not read.
fn busy(seed: u64) -> (World, AssociationId, AssociationId) {
    let mut w = configured(seed);
    let (a, b) = w.connect();
    disturb(&mut w, seed);
    for step in 0..12 {
        act(&mut w, seed, step, 0, a);
        act(&mut w, seed, step, 1, b);
        w.run(ms(15));
    }
    (w, a, b)
}

fn import(now: Time, bytes: &[u8]) -> Result<Endpoint, ImportError> {
    Endpoint::import(ImportConfig::default(), now, bytes)
}

/// An association with a few small messages in the middle of their transfer.
fn small(seed: u64) -> World {
    let (mut w, a, b) = configured(seed).connected();
    w.lose_from(0, ChunkType::DATA, 1, 1);
    for step in 0..4 {
        for (end, id) in [(0, a), (1, b)] {
            let options = SendOptions {
                reliability: [Reliability::Full, Reliability::Retransmissions(2)][end],
                ..SendOptions::on_stream(step)
            };
            w.send_with(end, id, options, pattern(20 + 30 * usize::from(step)));
        }
        w.run(ms(9));
    }
    let reset = w.change(0, a).reset_streams(StreamDirection::Outgoing, &[]);
    reset.expect("reset");
    w
}

/// Returns the export with this state, and a correct length and checksum.
fn framed(header: &[u8], state: &[u8]) -> Vec<u8> {
    let mut bytes = header[..HEADER - 8].to_vec();
    bytes.extend((state.len() as u64).to_be_bytes());
    bytes.extend(state);
    let sum = crc32c(&bytes);
    bytes.extend(sum.to_be_bytes());
    bytes
}

/// RFC 9260, section 5.1.3
#[test]
fn cookie_of_the_predecessor_is_accepted() {
    let mut client = endpoint(0);
    let mut server = endpoint(1);
    let peer = addresses(1)[0];
    let then = Time::from_millis(5_000);
    client
        .connect(then, &[peer], port(1), None, AssociationConfig::default())
        .expect("connect");
    let init = packet(&mut client, then).expect("an INIT");
    server.handle_datagram(then, &route(0), init.into());
    let init_ack = packet(&mut server, then).expect("an INIT ACK");
    client.handle_datagram(then, &route(1), init_ack.into());
    let cookie_echo = packet(&mut client, then).expect("a COOKIE ECHO");

    let export = server.export(then).expect("export");
    for now in [
        Time::ZERO,
        Time::from_millis(2_000),
        Time::from_millis(900_000_000),
    ] {
        let mut late = import(now, export.as_bytes()).expect("import");
        let stale = now + secs(61);
        late.handle_datagram(stale, &route(0), cookie_echo.clone().into());
        assert_eq!(
            (late.associations().count(), late.stats().stale_cookies),
            (0, 1)
        );
        let mut successor = import(now, export.as_bytes()).expect("import");
        successor.handle_datagram(now + secs(59), &route(0), cookie_echo.clone().into());
        assert_eq!(successor.associations().count(), 1);
        assert_eq!(successor.stats().stale_cookies, 0);
    }
}

fn endpoint(end: usize) -> Endpoint {
    let config = EndpointConfig::new(port(end), addresses(end)[..1].to_vec(), [end as u8; 32]);
    Endpoint::new(config).expect("a valid configuration")
}

/// Route of packets from this endpoint to the other one.
fn route(from: usize) -> Route {
    Route {
        local: Some(addresses(1 - from)[0]),
        remote: addresses(from)[0],
        encapsulation: None,
        ecn: Ecn::default(),
    }
}

fn packet(endpoint: &mut Endpoint, now: Time) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    endpoint.poll_transmit(now, &mut buf).map(|_| buf)
}

/// RFC 9260, section 6.3
#[test]
fn timers_continue_with_the_time_that_is_left() {
    let mut client = endpoint(0);
    let then = Time::from_millis(5_000);
    client
        .connect(
            then,
            &[addresses(1)[0]],
            port(1),
            None,
            AssociationConfig::default(),
        )
        .expect("connect");
    let init = packet(&mut client, then).expect("an INIT");
    let later = then + ms(400);
    let export = client.export(later).expect("export");
    for now in [
        Time::ZERO,
        Time::from_millis(5_000),
        Time::from_millis(900_000_000),
    ] {
        let mut successor = import(now, export.as_bytes()).expect("import");
        assert_eq!(packet(&mut successor, now), None);
        assert_eq!(successor.poll_timeout(), Some(now + ms(600)));
        successor.handle_timeout(now + ms(599));
        assert_eq!(packet(&mut successor, now + ms(599)), None);
        successor.handle_timeout(now + ms(600));
        assert_eq!(packet(&mut successor, now + ms(600)).as_ref(), Some(&init));
    }
}

#[test]
fn events_messages_and_statistics_are_kept() {
    let (mut w, a, b) = World::single_homed().connected();
    w.send(0, a, 3, pattern(9000));
    w.run(secs(1));
    w.send(1, b, 1, pattern(10));
    let before = w.stats(1, b);
    let (messages, stats) = (before.receivable_messages, w.ends[1].stats());
    assert_eq!(messages, 1);
    let export = w.ends[1].export(w.now).expect("export");
    let mut successor = import(w.now, export.as_bytes()).expect("import");
    assert_eq!(successor.association(b).map(|a| a.stats()), Some(before));
    assert_eq!(successor.stats(), stats);
    let message = successor.receive(b).expect("a message");
    assert_eq!(message.payload.into_bytes(), pattern(9000));
    let mut closing = w.ends[0]
        .export(w.now)
        .map(|export| import(w.now, export.as_bytes()));
    let client = closing.as_mut().expect("export").as_mut().expect("import");
    client.abort(w.now, a, b"over").expect("abort");
    let aborted = client.export(w.now).expect("export");
    let mut last = import(w.now, aborted.as_bytes()).expect("import");
    assert!(matches!(last.poll_event(), Some((id, Event::Closed(_))) if id == a));
    assert!(
        packet(&mut last, w.now).is_some(),
        "the ABORT is sent by the successor"
    );
}

#[test]
fn damaged_exports_are_refused() {
    let (mut w, ..) = busy(3);
    w.hands_over = false;
    let export = w.ends[0].export(w.now).expect("export");
    let bytes = export.as_bytes();
    let error = |bytes: &[u8]| import(w.now, bytes).expect_err("it is damaged");
    assert_eq!(error(b""), ImportError::NoExport);
    assert_eq!(error(b"something else"), ImportError::NoExport);
    let mut other = bytes.to_vec();
    other[8..10].copy_from_slice(&9_u16.to_be_bytes());
    let version = error(&other);
    assert!(
        matches!(version, ImportError::Version { found: 9, .. }),
        "{version}"
    );
    for len in (10..bytes.len()).step_by(1 + bytes.len() / 500) {
        assert_eq!(error(&bytes[..len]), ImportError::Damaged, "{len} bytes");
    }
    for at in (10..bytes.len()).step_by(1 + bytes.len() / 500) {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0x10;
        assert_eq!(error(&changed), ImportError::Damaged, "byte {at}");
    }
    let longer = framed(bytes, &[&bytes[HEADER..bytes.len() - 4], &[0]].concat());
    assert!(matches!(error(&longer), ImportError::Malformed(_)));
    assert!(import(w.now, bytes).is_ok());
}

/// States of both ends of an association in the middle of a transfer, by the version of the format.
const STATES: [(u16, [&[u8]; 2]); 1] = [(
    1,
    [
        include_bytes!("exports/1-0.bin"),
        include_bytes!("exports/1-1.bin"),
    ],
)];

/// The states of former versions were written by `write_states` of their commit.
#[test]
fn states_of_each_version_continue() {
    for (version, states) in STATES {
        let mut w = World::new();
        w.now = Time::from_millis(3_600_000);
        for (end, state) in states.into_iter().enumerate() {
            assert_eq!(state[8..10], version.to_be_bytes());
            w.ends[end] = import(w.now, state).expect("each version is imported");
        }
        let ids = [0, 1].map(|end| w.association(end));
        let sent = |w: &World, end: usize| w.stats(end, ids[end]).send_buffer_bytes;
        assert!(sent(&w, 0) > 0 && sent(&w, 1) > 0, "data is outstanding");
        let mut arrived = [0, 0];
        for _ in 0..600 {
            w.run(ms(500));
            for end in 0..2 {
                arrived[end] += w.receive(end, ids[end]).len();
            }
        }
        assert!(sent(&w, 0) == 0 && sent(&w, 1) == 0, "all data has arrived");
        assert!(arrived[0] > 0 && arrived[1] > 0, "{arrived:?}");
        for end in 0..2 {
            w.send(end, ids[end], 0, pattern(500));
            w.run(secs(5));
            let message = w.receive(1 - end, ids[1 - end]).pop().expect("a message");
            assert_eq!(message.payload.into_bytes(), pattern(500));
        }
    }
    let (oldest, latest) = (STATES[0].0, STATES[STATES.len() - 1].0);
    assert_eq!((oldest, latest), (OLDEST_VERSION, VERSION));
}

/// Writes the states of this version for [`STATES`].
#[test]
#[ignore = "writes files of this test"]
fn write_states() {
    let w = small(3);
    let to = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/exports");
    for end in 0..2 {
        let export = w.ends[end].export(w.now).expect("export");
        let file = to.join(format!("{VERSION}-{end}.bin"));
        std::fs::write(file, export.as_bytes()).expect("a writable directory");
    }
}

/// Every truth value of a state is among the changed bits.
#[test]
fn inconsistent_exports_are_rejected_or_run() {
    for seed in 0..6 {
        let (mut w, ..) = busy(seed);
        w.hands_over = false;
        let export = w.ends[0].export(w.now).expect("export");
        let bytes = export.as_bytes();
        let state = &bytes[HEADER..bytes.len() - 4];
        let mut accepted = 0;
        for at in (0..state.len()).step_by(1 + state.len() / 3000) {
            let mut changed = state.to_vec();
            changed[at] ^= 1;
            let Ok(mut endpoint) = import(w.now, &framed(bytes, &changed)) else {
                continue;
            };
            accepted += 1;
            for now in [w.now, w.now + secs(1), w.now + secs(4)] {
                endpoint.handle_timeout(now);
                for _ in 0..100 {
                    if packet(&mut endpoint, now).is_none() {
                        break;
                    }
                }
            }
        }
        assert!(accepted > 0, "seed {seed}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let (w, ..) = busy(1);
    let export = w.ends[0].export(w.now).expect("export");
    let len = export.as_bytes().len();
    assert_eq!(
        format!("{export:?}"),
        format!("EndpointExport({len} bytes)")
    );
}

#[test]
fn export_of_an_idle_association_is_small() {
    let (w, ..) = World::new().connected();
    let empty = endpoint(0).export(w.now).expect("export").as_bytes().len();
    let idle = w.ends[0].export(w.now).expect("export").as_bytes().len();
    println!("{empty} bytes without associations, {idle} bytes with an idle one");
    assert!(idle - empty < 2048, "{idle} bytes");
    let (w, a, _) = busy(8);
    let stats = w.stats(0, a);
    let held = stats.send_buffer_bytes + stats.receive_buffer_bytes;
    let busy = w.ends[0].export(w.now).expect("export").as_bytes().len();
    println!("{busy} bytes with a busy one that holds {held} bytes");
    assert!(busy < 2 * held + 8192, "{busy} bytes");
}

/// Window of the user that never changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fixed {
    window: usize,
    has_export: bool,
}

impl Algorithm for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn start(&self, _: Parameters) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn import(&self, _: Time, state: &[u8]) -> Option<Box<dyn Controller>> {
        let window = usize::from_be_bytes(state.try_into().ok()?);
        Some(Box::new(Self { window, ..*self }))
    }
}

impl Controller for Fixed {
    fn window(&self) -> usize {
        self.window
    }

    fn on_ack(&mut self, _: &Acknowledged) {}
    fn on_congestion(&mut self, _: CongestionEvent) {}
    fn on_idle(&mut self, _: u32) {}
    fn set_pmdcs(&mut self, _: usize) {}
    fn reset(&mut self) {}

    fn export(&self, _: Time) -> Option<Vec<u8>> {
        self.has_export.then(|| self.window.to_be_bytes().to_vec())
    }
}

#[test]
fn controllers_of_the_user_are_continued() {
    let fixed = |window, has_export| Arc::new(Fixed { window, has_export });
    let connected = |algorithm: Arc<Fixed>| {
        let mut w = World::single_homed();
        w.config.research.policies = Policies {
            congestion: algorithm,
            ..Policies::default()
        };
        w.connected()
    };
    let (w, a, _) = connected(fixed(12_345, true));
    let export = w.ends[0].export(w.now).expect("export");
    let error = import(w.now, export.as_bytes()).expect_err("the algorithm is not listed");
    assert_eq!(error, ImportError::UnknownAlgorithm("fixed".into()));
    let parts = ImportConfig {
        algorithms: vec![fixed(1, true)],
        ..ImportConfig::default()
    };
    let successor = Endpoint::import(parts, w.now, export.as_bytes()).expect("import");
    let path = successor
        .association(a)
        .and_then(|a| a.path_stats(carrick_proto::PathId(0)))
        .expect("a path");
    assert_eq!(path.cwnd, 12_345);
    let (w, ..) = connected(fixed(12_345, false));
    assert_eq!(w.ends[0].export(w.now), Err(ExportError::Controller));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn forged_state_is_refused_or_taken(
        seed in 0_u64..12,
        end in 0_usize..2,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let (w, ..) = busy(seed);
        let export = w.ends[end].export(w.now).expect("export");
        let bytes = export.as_bytes();
        let mut state = bytes[HEADER..bytes.len() - 4].to_vec();
        for (at, value) in changes {
            *at.get_mut(&mut state) = value;
        }
        if let Some(cut) = cut {
            state.truncate(cut.index(state.len()));
        }
        // No panic; what no endpoint can have is an error.
        let _ = import(w.now, &framed(bytes, &state));
    }
}

/// Writes seeds of the fuzz target `import` to the directory in `CARRICK_SEEDS`: states without their frame.
#[test]
#[ignore = "writes the corpus of a fuzz target"]
fn write_seeds() {
    let to = std::path::PathBuf::from(std::env::var_os("CARRICK_SEEDS").expect("CARRICK_SEEDS"));
    let write = |name: &str, endpoint: &Endpoint, now| {
        let export = endpoint.export(now).expect("export");
        let bytes = export.as_bytes();
        std::fs::write(to.join(name), &bytes[HEADER..bytes.len() - 4])
            .expect("a writable directory");
    };
    let (w, ..) = World::new().connected();
    write("idle", &w.ends[0], w.now);
    for seed in 0..12 {
        let w = small(seed);
        write(&format!("busy-{seed}"), &w.ends[(seed % 2) as usize], w.now);
    }
    let mut setting_up = endpoint(0);
    setting_up
        .connect(
            w.now,
            &addresses(1),
            port(1),
            None,
            AssociationConfig::default(),
        )
        .expect("connect");
    write("setting-up", &setting_up, w.now);
}
