#!/usr/bin/env python3
"""Shows that the checks of the interop tests can fail: each is given something wrong.

    interop/selftest.py         needs tshark and the built usrsctp peer (make -C interop)
"""

import contextlib
import io
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "kernel"))

import messages  # noqa: E402
from options import parse_sizes, parser  # noqa: E402

USRSCTP = os.path.join(HERE, "../target/interop/usrsctp-peer")


def crc32c(data):
    """Bit by bit: a few packets only."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sctp_packet(chunks, wrong_crc=False):
    blank = struct.pack(">HHII", 5001, 5002, 1, 0) + chunks
    return blank[:8] + struct.pack("<I", crc32c(blank) ^ wrong_crc) + chunks


def pcap(path, packets, port=9899):
    """A capture (link type 228, IPv4) of these payloads in UDP, without UDP checksums."""
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 228))
        for packet in packets:
            udp = struct.pack(">HHHH", port, port, 8 + len(packet), 0) + packet
            head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton("10.77.0.1"), socket.inet_aton("10.77.0.2"))
            total = sum(struct.unpack(">10H", head))
            while total > 0xFFFF:
                total = (total & 0xFFFF) + (total >> 16)
            head = head[:10] + struct.pack(">H", 0xFFFF - total) + head[12:]
            frame = head + udp
            file.write(struct.pack("=IIII", 1, 0, len(frame), len(frame)) + frame)


DATA = struct.pack(">BBHIHHI", 0, 3, 20, 1, 0, 0, 0) + b"abcd"
BAD_LENGTH = struct.pack(">BBHIHHI", 0, 3, 400, 1, 0, 0, 0) + b"abcd"
COOKIE_ACK = struct.pack(">BBH", 11, 0, 4)


class CaptureCheck(unittest.TestCase):
    def verdict(self, packets, port=9899):
        with tempfile.TemporaryDirectory() as scratch:
            pcap(f"{scratch}/x.pcap", packets, port)
            done = subprocess.run([f"{HERE}/check_capture.sh", f"{scratch}/x.pcap"], capture_output=True, text=True)
            return done.returncode, done.stderr

    def test_sound_packets_pass(self):
        self.assertEqual(self.verdict([sctp_packet(DATA), sctp_packet(COOKIE_ACK)])[0], 0)

    def test_a_bad_checksum_is_found_with_its_frame(self):
        status, text = self.verdict([sctp_packet(DATA), sctp_packet(DATA, wrong_crc=True)])
        self.assertEqual(status, 1)
        self.assertIn("1 of 2", text)
        self.assertIn("\n2\t", text)

    def test_a_malformed_chunk_is_found(self):
        self.assertEqual(self.verdict([sctp_packet(DATA), sctp_packet(BAD_LENGTH)])[0], 1)

    def test_a_datagram_that_is_no_sctp_is_found(self):
        self.assertEqual(self.verdict([sctp_packet(DATA), b"no"])[0], 1)

    def test_a_capture_without_sctp_fails(self):
        self.assertEqual(self.verdict([sctp_packet(DATA)], port=4000)[0], 1)

    def test_a_file_that_is_no_capture_fails(self):
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(b"nothing of the kind")
            file.flush()
            done = subprocess.run([f"{HERE}/check_capture.sh", file.name], capture_output=True)
            self.assertNotEqual(done.returncode, 0)


class MessageCheck(unittest.TestCase):
    def errors(self, *arrivals, complete=True):
        """Arrivals are (stream, index, unordered, data)."""
        check = messages.Check()
        with contextlib.redirect_stdout(io.StringIO()):
            for stream, index, unordered, data in arrivals:
                check.message(stream, index, unordered, memoryview(data))
            if complete:
                check.complete()
        return check.errors

    @staticmethod
    def whole(stream, index, length=20, unordered=False):
        return stream, index, unordered, messages.content(stream, index, length)

    def test_what_is_right_passes(self):
        self.assertEqual(self.errors(self.whole(0, 0), self.whole(1, 0, 3), self.whole(0, 2, unordered=True), self.whole(0, 1)), 0)

    def test_every_changed_byte_is_found(self):
        for length in (1, 7, 8, 9, 300):
            stream, index, unordered, data = self.whole(3, 77, length)
            for position in range(length):
                changed = bytearray(data)
                changed[position] ^= 0x80
                self.assertGreaterEqual(self.errors((stream, index, unordered, bytes(changed)), complete=False), 1)

    def test_a_cut_message_is_found(self):
        stream, index, unordered, data = self.whole(0, 0, 20)
        self.assertEqual(self.errors((stream, index, unordered, data[:19])), 1)

    def test_a_message_on_another_stream_is_found(self):
        _, index, unordered, data = self.whole(0, 0, 20)
        self.assertEqual(self.errors((1, index, unordered, data)), 1)

    def test_twice_is_found(self):
        self.assertEqual(self.errors(self.whole(0, 0, unordered=True), self.whole(0, 0, unordered=True)), 1)

    def test_disorder_is_found_where_order_was_asked(self):
        self.assertEqual(self.errors(self.whole(0, 1), self.whole(0, 0)), 1)
        self.assertEqual(self.errors(self.whole(0, 1, unordered=True), self.whole(0, 0, unordered=True)), 0)

    def test_a_gap_is_found_at_the_end(self):
        self.assertEqual(self.errors(self.whole(0, 0), self.whole(0, 2)), 1)


class MessageSourceTest(unittest.TestCase):
    def test_the_sequence_of_sizes_is_fixed(self):
        # Known values of splitmix64 for seed 0.
        self.assertEqual([messages.splitmix64(0, n) for n in range(2)], [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4])

    def test_sizes_add_up_and_the_last_is_cut(self):
        options = parser("test").parse_args(["listen", "1", "--mode", "source", "--bytes", "1000", "--sizes", "7,300", "--streams", "3"])
        source, sizes = messages.MessageSource(options, 2), []
        while message := source.next():
            sizes.append(len(message[3]))
        self.assertEqual(sizes, [7, 300, 7, 300, 7, 300, 7, 72])

    def test_wrong_sizes_are_refused(self):
        for text in ("", "0", "5-4", "x", "1,", "99999999"):
            with self.assertRaises(Exception):
                parse_sizes(text)


class CommandLine(unittest.TestCase):
    WRONG = [[], ["listen"], ["listen", "0"], ["connect", "nowhere", "5"], ["listen", "5", "--mode", "x"], ["listen", "5", "--sizes", "0"],
             ["connect", "10.0.0.1", "5", "--seed", "-1"], ["listen", "5", "--nonsense"]]

    def refuse(self, program):
        for arguments in self.WRONG:
            done = subprocess.run([*program, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_usrsctp_peer_refuses(self):
        self.refuse([USRSCTP])

    def test_kernel_peer_refuses(self):
        self.refuse([sys.executable, "-B", f"{HERE}/kernel/kernel_peer.py"])


if __name__ == "__main__":
    unittest.main()
