#!/usr/bin/env python3
"""Shows that the judgement of the table counts, and that the relay breaks what it is asked to: no root, no network.

    interop/redundancy/selftest.py
"""

import os
import struct
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import analysis  # noqa: E402
import expectations  # noqa: E402
import page  # noqa: E402
import relay  # noqa: E402
from columns import COLUMNS  # noqa: E402
from figure import STYLES, figure  # noqa: E402
from rows import ROWS, Times  # noqa: E402


def stream(count, missing=(), start=100.0, interval=0.02):
    """Returns arrivals of messages 0 to count - 1 at their times."""
    return [(number, start + number * interval) for number in range(count) if number not in missing]


class Counts(unittest.TestCase):
    def test_a_complete_stream_has_no_faults(self):
        self.assertEqual(analysis.counts(range(100), 100, False), (0, 0, 0, 0))

    def test_a_lost_message_is_counted(self):
        self.assertEqual(analysis.counts([0, 1, 3, 4], 5, False), (1, 0, 0, 0))

    def test_a_repeated_message_is_counted(self):
        self.assertEqual(analysis.counts([0, 1, 1, 2, 0], 3, False), (0, 2, 0, 0))

    def test_messages_out_of_order_are_counted(self):
        self.assertEqual(analysis.counts([0, 3, 1, 2, 4], 5, False), (0, 0, 2, 0))

    def test_queued_messages_are_not_lost_while_the_association_lives(self):
        self.assertEqual(analysis.counts([0, 1], 5, False), (0, 0, 0, 3))

    def test_queued_messages_are_lost_with_the_association(self):
        self.assertEqual(analysis.counts([0, 1], 5, True), (3, 0, 0, 0))

    def test_a_stream_without_arrivals_waits(self):
        self.assertEqual(analysis.counts([], 5, False), (0, 0, 0, 5))


class Silence(unittest.TestCase):
    WINDOW = (101.0, 110.0)

    def measure(self, arrivals, count, **more):
        return analysis.flow(arrivals, count, False, self.WINDOW, **more)

    def test_a_stream_without_gaps_has_the_interval_as_silence(self):
        self.assertAlmostEqual(self.measure(stream(500), 500).silence, 0.02, 3)

    def test_the_longest_gap_is_found(self):
        times = [(number, time if number < 200 else max(time, 106.5)) for number, time in stream(500)]
        flow = self.measure(times, 500)
        self.assertAlmostEqual(flow.silence, 106.5 - (100 + 199 * 0.02), 3)
        self.assertFalse(flow.open_end)

    def test_a_gap_before_the_window_does_not_count(self):
        self.assertAlmostEqual(self.measure(stream(500, range(2, 40)), 462).silence, 0.02, 3)

    def test_a_gap_that_begins_before_the_window_counts(self):
        self.assertAlmostEqual(self.measure(stream(500, range(40, 60)), 480).silence, 0.42, 3)

    def test_excused_time_does_not_count(self):
        times = [(number, time if number < 200 else max(time, 109.5)) for number, time in stream(500)]
        self.assertAlmostEqual(self.measure(times, 500, excused=[(104.0, 109.0)]).silence, 0.52, 3)

    def test_a_stream_that_stops_is_silent_until_the_end(self):
        flow = self.measure(stream(500)[:200], 500)
        self.assertAlmostEqual(flow.silence, 110.0 - 103.98, 3)
        self.assertTrue(flow.open_end)
        self.assertEqual(flow.waiting, 300)

    def test_a_silence_that_ends_after_a_repair_is_marked(self):
        times = [(number, time if number < 200 else max(time, 108.0)) for number, time in stream(500)]
        self.assertTrue(self.measure(times, 500, repairs=[107.5]).open_end)
        self.assertFalse(self.measure(times, 500, repairs=[109.0]).open_end)

    def test_an_empty_stream_is_silent_in_the_whole_window(self):
        self.assertAlmostEqual(self.measure([], 5).silence, 9.0, 3)


class States(unittest.TestCase):
    def test_the_last_state_before_the_window_is_at_0(self):
        history = [(98, "unconfirmed"), (99, "active"), (101.5, "active"), (102, "inactive"), (120, "active")]
        self.assertEqual(analysis.states(history, 100, 110), [(0.0, "active"), (2, "inactive")])

    def test_the_first_failing_state_is_found(self):
        states = {"1": [(0.0, "active"), (2.0, "inactive")], "2": [(0.0, "active"), (1.2, "potentially-failed")]}
        self.assertEqual(expectations.failing(states), (1.2, "potentially-failed"))
        self.assertIsNone(expectations.failing({"1": [(0.0, "active")]}))


def result(**changes):
    """Returns a result of a cell that meets its aim, with changes."""
    good = {"cell": "drop-both/run-udp", "row": "drop-both", "column": "run-udp", "policy": False, "silence": 0.4, "open_end": False, "lost": 0,
            "repeated": 0, "disordered": 0, "waiting": 0, "alive": True, "ended": None,
            "states": {"10.77.0.2": [(0.0, "active"), (0.5, "potentially-failed")]}, "seconds": 9.0}
    return good | changes


class Verdicts(unittest.TestCase):
    def test_a_good_cell_is_met(self):
        self.assertEqual(expectations.verdict(result()), "met")
        self.assertEqual(expectations.beyond_gate(result()), [])

    def test_each_fault_is_not_met_and_fails_the_gate(self):
        for fault in ({"lost": 1}, {"repeated": 1}, {"disordered": 1}, {"waiting": 1}, {"alive": False, "ended": "reset"}):
            self.assertEqual(expectations.verdict(result(**fault)), "not met", fault)
            self.assertEqual(len(expectations.beyond_gate(result(**fault))), 1, fault)

    def test_the_bound_of_a_silence_depends_on_the_column(self):
        self.assertEqual(expectations.verdict(result(silence=0.7)), "not met")
        self.assertEqual(expectations.verdict(result(column="signaling-udp")), "not met")
        self.assertEqual(expectations.beyond_gate(result(silence=0.7)), [])
        self.assertEqual(len(expectations.beyond_gate(result(silence=20.0))), 1)

    def test_a_failure_that_is_not_shown_fails_the_gate(self):
        self.assertEqual(len(expectations.beyond_gate(result(states={"10.77.0.2": [(0.0, "active")]}))), 1)

    def test_an_end_that_is_not_reported_is_not_met(self):
        killed = {"row": "killed", "cell": "killed/run-udp"}
        self.assertEqual(expectations.verdict(result(**killed)), "not met")
        self.assertEqual(expectations.verdict(result(**killed, alive=False, ended="reset")), "met")

    def test_an_association_that_has_to_end_is_met_when_it_does(self):
        dead = {"row": "both-dead-30", "cell": "both-dead-30/signaling-udp", "column": "signaling-udp", "silence": 35.0, "lost": 745}
        self.assertEqual(expectations.verdict(result(**dead, alive=False, ended="timed out")), "met")
        self.assertEqual(expectations.verdict(result(**dead)), "not met")
        self.assertEqual(expectations.verdict(result(**(dead | {"column": "run-udp"}), alive=False, ended="timed out")), "not met")

    def test_rows_at_or_below_the_other_stacks_are_counted(self):
        def row(name, ours, other, **changes):
            return [result(row=name, silence=ours), result(row=name, column="linux", silence=other, **changes)]

        self.assertEqual(expectations.compared([*row("a", 1.0, 1.1), *row("b", 1.14, 1.11), *row("c", 1.2, 1.1), result(row="d")]), (2, 3))
        self.assertEqual(expectations.compared(row("a", 9.0, 0.1, lost=1)), (1, 1))

    def test_other_stacks_have_no_verdict(self):
        self.assertIsNone(expectations.verdict(result(column="linux")))

    def test_expectations_name_all_rows_and_cells(self):
        self.assertEqual(list(expectations.BOUNDS["rows"]), [row.name for row in ROWS])
        cells = {column.name + policy for column in COLUMNS if column.ours for policy in ("", "/policy")}
        for name, bounds in expectations.BOUNDS["rows"].items():
            self.assertLessEqual(set(bounds.get("quick", [])), cells, name)


class Steps(unittest.TestCase):
    def test_each_row_has_steps_within_its_time(self):
        for kind in ("quick", "full"):
            for row in ROWS:
                plan = row.build(Times(**expectations.times(kind)))
                self.assertTrue(plan.steps, row.name)
                self.assertTrue(all(0 <= at <= plan.end for at, _ in plan.steps), row.name)
                self.assertEqual(plan.notice is not None, row.is_notice, row.name)


class Page(unittest.TestCase):
    ABOUT = {"date": "2026-01-01", "host": "h", "versions": ["v"], "command": "c", "load": 0.1, "delay_ms": 10.0, "missing": {},
             "times": {"fault": 20, "first": 20, "pause": 20, "stop": 5, "rest": 5}}

    def test_results_are_written_in_the_same_order(self):
        results = [result(), result(column="linux", cell="drop-both/linux"), result(row="nat", cell="nat/run-udp")]
        pages = ["\n".join(page.lines(order, self.ABOUT)) for order in (results, results[::-1])]
        self.assertEqual(*pages)
        self.assertIn("| **0.40** | 0.40 |", pages[0])
        self.assertEqual(figure(results), figure(results[::-1]))

    def test_a_cell_shows_lost_messages(self):
        self.assertIn("| 0.40 (2 lost) |", "\n".join(page.lines([result(lost=2)], self.ABOUT)))

    def test_each_column_has_a_mark(self):
        self.assertEqual({column.name for column in COLUMNS} - set(STYLES), set())


def frame(protocol, payload, length=None):
    """Returns an Ethernet frame with an IPv4 packet from 10.77.0.1 to 10.77.0.2."""
    size = 20 + len(payload) if length is None else length
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 1, 0, 64, protocol, 0, bytes([10, 77, 0, 1]), bytes([10, 77, 0, 2]))
    return b"\x02" * 6 + b"\x04" * 6 + b"\x08\x00" + header + payload


def tcp_checksum(packet):
    """Returns 0 if the TCP checksum of a packet is right."""
    segment = packet[20:]
    return relay.checksum(packet[12:20] + struct.pack(">BBH", 0, 6, len(segment)) + segment)


class RelayFaults(unittest.TestCase):
    def setUp(self):
        self.plane = relay.Plane()
        self.frame = frame(132, bytes(60))

    def test_a_plane_without_faults_delivers(self):
        self.assertEqual(self.plane.carry("ab", self.frame), (self.frame, None))

    def test_a_direction_is_dropped(self):
        self.plane.change({"drop": "ab"})
        self.assertEqual(self.plane.carry("ab", self.frame), (None, None))
        self.assertEqual(self.plane.carry("ba", self.frame), (self.frame, None))

    def test_large_packets_are_dropped(self):
        self.plane.change({"largest": 1400})
        self.assertEqual(self.plane.carry("ab", self.frame), (self.frame, None))
        self.assertEqual(self.plane.carry("ab", frame(132, bytes(1381))), (None, None))

    def test_the_share_of_losses_is_that_of_the_fault(self):
        self.plane.change({"loss": 0.3})
        lost = sum(self.plane.carry("ab", self.frame)[0] is None for _ in range(10_000))
        self.assertTrue(2_800 < lost < 3_200, lost)

    def test_a_rejected_packet_is_answered_by_icmp(self):
        self.plane.change({"reject": 3})
        delivered, returned = self.plane.carry("ab", self.frame)
        self.assertIsNone(delivered)
        packet = relay.ipv4(returned)
        self.assertEqual((returned[:6], packet[9], packet[12:16], packet[16:20]), (b"\x04" * 6, 1, bytes([10, 77, 0, 2]), bytes([10, 77, 0, 1])))
        self.assertEqual((packet[20], packet[21], packet[28:]), (3, 3, relay.ipv4(self.frame)))
        self.assertEqual((relay.checksum(packet[:20]), relay.checksum(packet[20:])), (0, 0))

    def test_icmp_is_not_answered_by_icmp(self):
        self.plane.change({"reject": 1})
        self.assertEqual(self.plane.carry("ab", frame(1, bytes(8))), (None, None))

    def test_a_forgotten_port_is_translated_to_another_one(self):
        self.plane.change({"translate": True})
        segment = struct.pack(">HHIIHHHH", 40_000, 5000, 1, 2, 0x5018, 100, 0, 0) + b"data"
        check = relay.checksum(bytes([10, 77, 0, 1, 10, 77, 0, 2]) + struct.pack(">BBH", 0, 6, len(segment)) + segment)
        sent = frame(6, segment[:16] + struct.pack(">H", check) + segment[18:])
        ports = []
        for _ in range(2):
            translated, _ = self.plane.carry("ab", sent)
            packet = relay.ipv4(translated)
            self.assertEqual(tcp_checksum(packet), 0)
            ports.append(struct.unpack_from(">H", packet, 20)[0])
            self.plane.change({"forget": True})
        self.assertEqual(len({*ports, 40_000}), 3)
        answer = frame(6, struct.pack(">HH", 5000, ports[0]) + segment[4:])
        self.assertEqual(self.plane.carry("ba", answer), (None, None))


if __name__ == "__main__":
    unittest.main()
