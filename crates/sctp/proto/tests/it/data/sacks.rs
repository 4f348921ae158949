//! Time and content of SACKs (sections 3.3.4, 6.2, 6.7).

use carrick_proto::SendOptions;
use carrick_wire::{CauseCode, ChunkType, DataFlags, DataHeader};

use crate::common::*;
use crate::data::support::*;

/// RFC 9260, section 6.1
#[test]
fn a_sack_is_bundled_in_front_of_data() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"one");
    assert_eq!(peer.data(&mut w, 0, 1, b"two").len(), 0, "delayed");
    w.send(0, id, 0, pattern(10));
    let sent = peer.receive(&mut w);
    assert_eq!(sent[0].kinds(), [ChunkType::SACK, ChunkType::DATA]);
    assert_eq!(
        sent[0].sack().unwrap().cumulative_tsn_ack,
        peer.tsn.previous()
    );
}

/// RFC 9260, section 6.2
#[test]
fn the_i_bit_on_the_last_fragment_is_sacked_at_once() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let immediate = SendOptions {
        immediate: true,
        ..options(0)
    };
    w.send_with(0, id, immediate, pattern(3000));
    let sent = peer.receive(&mut w);
    let bits: Vec<_> = sent
        .iter()
        .flat_map(|p| {
            p.data()
                .iter()
                .map(|d| d.flags.immediate)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(bits, [false, false, true]);

    peer.data(&mut w, 0, 0, b"first");
    let mut header = Puppet::data_header(peer.tsn, 0, 1);
    header.flags.immediate = true;
    let answers = peer.send(&mut w, |p| p.data(&header, b"at once"));
    assert!(answers[0].has(ChunkType::SACK));
}

/// RFC 9260, section 6.2
#[test]
fn every_second_packet_is_sacked_at_once() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    assert!(peer.data(&mut w, 0, 0, b"first")[0].has(ChunkType::SACK));
    for round in 0..3 {
        assert_eq!(peer.data(&mut w, 0, 1 + 2 * round, b"odd").len(), 0);
        let answers = peer.data(&mut w, 0, 2 + 2 * round, b"even");
        assert_eq!(answers.len(), 1);
        assert!(answers[0].has(ChunkType::SACK));
    }
    // Two chunks in one packet are one packet.
    let (one, two) = (
        Puppet::data_header(peer.tsn, 0, 7),
        Puppet::data_header(peer.tsn.next(), 0, 8),
    );
    let answers = peer.send(&mut w, |p| {
        p.data(&one, b"1");
        p.data(&two, b"2");
    });
    assert_eq!(answers.len(), 0);
    peer.tsn = peer.tsn.plus(2);
    w.run(ms(199));
    assert_eq!(peer.receive(&mut w).len(), 0);
    w.run(ms(1));
    let sack = peer.receive(&mut w);
    assert_eq!(
        sack[0].sack().unwrap().cumulative_tsn_ack,
        peer.tsn.previous()
    );
    w.run(secs(5));
    assert!(peer.receive(&mut w).iter().all(|p| !p.has(ChunkType::SACK)));
    assert_eq!(w.receive(0, id).len(), 9);
}

/// RFC 9260, section 6.7
#[test]
fn a_gap_is_reported_at_once_until_filled() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let base = peer.tsn.previous();
    let arrive = |w: &mut World, offset: u32| {
        let header = Puppet::data_header(base.plus(offset), 0, offset as u16);
        let answers = peer.send(w, |p| p.data(&header, b"x"));
        answers.first().map(|p| {
            let sack = p.sack().unwrap();
            let gaps: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
            (sack.cumulative_tsn_ack.since(base), gaps)
        })
    };
    assert_eq!(arrive(&mut w, 1), None, "in order");
    assert_eq!(arrive(&mut w, 3), Some((1, vec![(2, 2)])));
    assert_eq!(arrive(&mut w, 4), Some((1, vec![(2, 3)])));
    assert_eq!(arrive(&mut w, 7), Some((1, vec![(2, 3), (6, 6)])));
    assert_eq!(arrive(&mut w, 2), Some((4, vec![(3, 3)])));
    assert_eq!(arrive(&mut w, 5), Some((5, vec![(2, 2)])));
    assert_eq!(arrive(&mut w, 6), Some((7, vec![])), "filled: at once too");
    assert_eq!(arrive(&mut w, 8), None, "and then delayed again");
}

/// RFC 9260, section 6.7
#[test]
fn a_batch_behind_a_gap_gives_enough_missing_reports() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let base = peer.tsn.previous();
    let mut arrive = |offsets: &[u32]| {
        for &offset in offsets {
            let header = Puppet::data_header(base.plus(offset), 0, offset as u16);
            let packet = peer.build(peer.peer_tag, |p| p.data(&header, b"x"));
            w.ends[0].handle_datagram(w.now, &peer.route(), packet);
        }
        let answers = peer.receive(&mut w);
        let reports = answers.iter().map(|p| {
            assert_eq!(p.kinds(), [ChunkType::SACK], "one SACK a packet");
            let sack = p.sack().unwrap();
            let gaps: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
            (sack.cumulative_tsn_ack.since(base), gaps)
        });
        reports.collect::<Vec<_>>()
    };
    let of = |cumulative, gap| (cumulative, vec![gap]);
    assert_eq!(
        arrive(&[2, 3, 4, 5, 6, 7, 8, 9]),
        [of(0, (2, 2)), of(0, (2, 3)), of(0, (2, 4)), of(0, (2, 9))],
        "one SACK for each, and no more SACKs than needed"
    );
    assert_eq!(arrive(&[10, 11]), [of(0, (2, 10)), of(0, (2, 11))]);
    assert_eq!(
        arrive(&[12, 1, 13, 14]),
        [of(0, (2, 12)), (14, vec![])],
        "filled: the batch has one SACK again"
    );
    assert_eq!(arrive(&[15, 16, 17, 18]), [(18, vec![])]);
}

/// RFC 9260, section 3.3.4
#[test]
fn duplicates_are_reported_at_once() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let header = Puppet::data_header(peer.tsn.previous(), 0, 0);
    let answers = peer.send(&mut w, |p| {
        p.data(&header, b"first");
        p.data(&header, b"first");
    });
    let duplicates: Vec<_> = answers[0].sack().unwrap().duplicate_tsns().collect();
    assert_eq!(duplicates, [header.tsn, header.tsn]);
    let answers = peer.send(&mut w, |p| p.data(&header, b"first"));
    let duplicates: Vec<_> = answers[0].sack().unwrap().duplicate_tsns().collect();
    assert_eq!(duplicates, [header.tsn], "since the last SACK");
    assert_eq!(w.receive(0, id).len(), 1);
    assert_eq!(w.stats(0, id).counters.duplicates_received, 3);
}

/// RFC 9260, section 12.4
#[test]
fn a_sack_of_an_unsent_tsn_aborts() {
    for (cumulative, gaps) in [(1, vec![]), (0, vec![(2, 2)]), (1000, vec![])] {
        let mut w = World::single_homed();
        let (peer, id) = Puppet::new().connect(&mut w);
        w.send(0, id, 0, pattern(10));
        let answers = peer.sack(&mut w, peer.endpoint_tsn(cumulative), 100_000, &gaps);
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
    }
}

/// RFC 9260, section 6.2.1
#[test]
fn an_old_sack_changes_nothing() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    for _ in 0..3 {
        w.send(0, id, 0, pattern(1000));
    }
    peer.sack(&mut w, peer.endpoint_tsn(1), 50_000, &[]);
    let before = w.stats(0, id);
    peer.sack(&mut w, peer.endpoint_tsn(0), 10, &[]);
    let after = w.stats(0, id);
    assert_eq!(
        (before.peer_rwnd, before.outstanding_chunks),
        (after.peer_rwnd, after.outstanding_chunks)
    );
    // Far away in the other half of the numbers: older still.
    peer.sack(&mut w, peer.endpoint_tsn(0x8000_0010), 10, &[]);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// RFC 9260, section 6.7
#[test]
fn gap_blocks_that_do_not_fit_are_omitted() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.buffers.receive_buffer = 10 << 20;
    });
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let base = peer.tsn.previous();
    let mut last = Vec::new();
    for i in 1..=1000 {
        let header = Puppet::data_header(base.plus(2 * i), 1, i as u16);
        last = peer.send(&mut w, |p| p.data(&header, b"x"));
    }
    assert_eq!(last.len(), 1, "one SACK");
    let sack = last[0].sack().unwrap();
    let gaps: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
    assert!(last[0].bytes.len() <= 1480 && gaps.len() > 350);
    for (i, gap) in gaps.iter().enumerate() {
        let offset = 2 * (i as u16 + 1);
        assert_eq!(*gap, (offset, offset), "from the lowest");
    }
}

/// RFC 9260, section 3.3.4
#[test]
fn a_tsn_beyond_gap_block_range_is_dropped() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    for (ahead, taken) in [(65_535, false), (65_534, true)] {
        let header = DataHeader {
            flags: DataFlags {
                unordered: true,
                ..DataFlags::WHOLE
            },
            ..Puppet::data_header(peer.tsn.plus(ahead), 0, 0)
        };
        let answers = peer.send(&mut w, |p| p.data(&header, b"far"));
        assert!(answers[0].has(ChunkType::SACK));
        assert_eq!(w.receive(0, id).len(), usize::from(taken));
    }
}

/// RFC 9260, section 7.2.4
#[test]
fn a_full_sack_does_not_delay_fast_retransmit() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.buffers.receive_buffer = 10 << 20;
    });
    let (peer, id) = Puppet::new().connect(&mut w);
    for _ in 0..300 {
        w.send(0, id, 0, pattern(FULL));
    }
    // Open the window, so that it stays full when it is halved.
    let mut next = 0;
    while w.path(0, id, 0).cwnd < 20 * 1468 {
        w.run(ms(1));
        let packets = peer.receive(&mut w);
        next += peer.numbers(&packets).len() as u32;
        let more = peer.sack(&mut w, peer.endpoint_tsn(next - 1), 1 << 20, &[]);
        next += peer.numbers(&more).len() as u32;
    }
    let packets = peer.receive(&mut w);
    next += peer.numbers(&packets).len() as u32;
    let in_flight = w.stats(0, id).outstanding_chunks as u32;
    let lost = next - in_flight;
    let cumulative = peer.endpoint_tsn(lost).previous();
    // The data of the peer has enough gaps for their report to fill a packet.
    for i in 1..=400 {
        let header = Puppet::data_header(peer.tsn.plus(2 * i), 1, i as u16);
        peer.send(&mut w, |p| p.data(&header, b"x"));
    }
    let mut sent = Vec::new();
    for report in 1..=3_u16 {
        let gap = carrick_wire::GapAckBlock {
            start: 2,
            end: 1 + report,
        };
        let header =
            Puppet::data_header(peer.tsn.plus(800 + 2 * u32::from(report)), 1, 500 + report);
        sent = peer.send(&mut w, |p| {
            p.sack(
                cumulative,
                1 << 20,
                std::iter::once(gap),
                std::iter::empty(),
            );
            p.data(&header, b"x");
        });
    }
    let path = w.path(0, id, 0);
    assert!(
        path.flight_size > path.cwnd,
        "the window is closed: {path:?}"
    );
    assert!(peer.numbers(&sent).contains(&lost), "retransmitted at once");
}
