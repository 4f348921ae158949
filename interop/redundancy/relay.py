#!/usr/bin/env python3
"""Carries the frames of planes between two hosts with a delay, and breaks them on request.

    relay.py DELAY-MS A0:B0 [A1:B1 ...]        interfaces of this network namespace, a pair for each plane

Each line of standard input is a JSON object: a plane by its number, and what changes there. Each is answered by a line "ok".

    {"plane": 0, "drop": "both"}               all frames are dropped: "both" directions, "ab", "ba", or "none"
    {"plane": 0, "loss": 0.3}                  share of the IPv4 packets that are lost at random
    {"plane": 0, "largest": 1400}              larger IPv4 packets are dropped; null: none
    {"plane": 0, "reject": 1}                  IPv4 packets are answered by ICMP Destination Unreachable with this code; null: not
    {"plane": 0, "translate": true}            source ports of side a are translated (UDP and TCP)
    {"plane": 0, "forget": true}               the translations so far are forgotten

netem is not used, because not every kernel has it. The random numbers of losses have a fixed seed.
"""

import heapq
import itertools
import json
import os
import random
import select
import socket
import struct
import sys
import time

ETH_P_ALL, ETH_P_IP = 3, 0x0800
PACKET_OUTGOING = 4
ICMP, TCP, UDP = 1, 6, 17
# Codes of ICMP Destination Unreachable that the destination itself sends; routers send the other ones.
FROM_DESTINATION = (2, 3)
# Bytes of a packet that an ICMP message quotes (RFC 1812 section 4.3.2.3).
QUOTED = 548
# Frames in flight on all planes, at most.
IN_FLIGHT = 10_000
FIRST_PUBLIC_PORT = 20_000


def checksum(data):
    """Returns the Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def updated(old_checksum, old, new):
    """Returns the checksum after a 16-bit word has changed (RFC 1624)."""
    total = (0xFFFF - old_checksum) + (0xFFFF - old) + new
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def ipv4(frame):
    """Returns the IPv4 packet of a frame, without padding, or None."""
    if len(frame) < 34 or struct.unpack_from(">H", frame, 12)[0] != ETH_P_IP:
        return None
    return frame[14 : 14 + struct.unpack_from(">H", frame, 16)[0]]


def unreachable(frame, packet, code):
    """Returns the frame with ICMP Destination Unreachable that answers a frame, or None: no ICMP error answers an ICMP message."""
    if packet[9] == ICMP:
        return None
    source, destination = packet[12:16], packet[16:20]
    sender = destination if code in FROM_DESTINATION else destination[:3] + b"\xfe"
    quoted = packet[:QUOTED]
    message = struct.pack(">BBHI", 3, code, 0, 0) + quoted
    message = message[:2] + struct.pack(">H", checksum(message)) + message[4:]
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(message), 0, 0, 64, ICMP, 0) + sender + source
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    return frame[6:12] + frame[:6] + frame[12:14] + header + message


class Translator:
    """Translation of side a's source ports, as by a NAT in front of it that keeps the addresses."""

    def __init__(self):
        self.public, self.private = {}, {}
        self.ports = itertools.count(FIRST_PUBLIC_PORT)

    def forget(self):
        self.public.clear()
        self.private.clear()

    def translate(self, direction, frame):
        """Returns the translated frame, or None if side b sends to a port without translation."""
        packet = ipv4(frame)
        if packet is None or packet[9] not in (TCP, UDP) or len(packet) < 28:
            return frame
        header = 14 + (packet[0] & 15) * 4
        at = header if direction == "ab" else header + 2
        (port,) = struct.unpack_from(">H", frame, at)
        key = (packet[9], port)
        if direction == "ab":
            if key not in self.public:
                self.public[key] = next(self.ports)
                self.private[packet[9], self.public[key]] = port
            new = self.public[key]
        elif key in self.private:
            new = self.private[key]
        else:
            return None
        changed = bytearray(frame)
        struct.pack_into(">H", changed, at, new)
        check = header + (16 if packet[9] == TCP else 6)
        (old_checksum,) = struct.unpack_from(">H", changed, check)
        # A UDP checksum of 0 is none.
        if packet[9] == TCP or old_checksum:
            struct.pack_into(">H", changed, check, updated(old_checksum, port, new) or (0xFFFF if packet[9] == UDP else 0))
        return bytes(changed)


class Plane:
    """Faults of a plane."""

    def __init__(self):
        self.drop, self.loss, self.largest, self.reject = "none", 0.0, None, None
        self.translator, self.random = None, random.Random(1)

    def change(self, change):
        for name in ("drop", "loss", "largest", "reject"):
            setattr(self, name, change.get(name, getattr(self, name)))
        if change.get("translate"):
            self.translator = Translator()
        if change.get("forget"):
            self.translator.forget()

    def carry(self, direction, frame):
        """Returns (frame to deliver, frame to return), each of which may be None."""
        if self.drop in ("both", direction):
            return None, None
        packet = ipv4(frame)
        if packet is not None:
            if self.reject is not None:
                return None, unreachable(frame, packet, self.reject)
            if self.largest is not None and len(packet) > self.largest:
                return None, None
            if self.loss and self.random.random() < self.loss:
                return None, None
            if self.translator:
                return self.translator.translate(direction, frame), None
        return frame, None


class Relay:
    """Planes with their interfaces, and the frames in flight."""

    def __init__(self, delay, pairs):
        self.delay, self.flight, self.numbers = delay, [], itertools.count()
        self.planes = [Plane() for _ in pairs]
        self.poll = select.poll()
        self.ends = {}
        for number, pair in enumerate(pairs):
            sockets = [self.open(name) for name in pair.split(":")]
            for direction, (here, there) in {"ab": sockets, "ba": sockets[::-1]}.items():
                self.ends[here.fileno()] = (number, direction, here, there)
                self.poll.register(here, select.POLLIN)

    @staticmethod
    def open(interface):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.bind((interface, 0))
        opened.setblocking(False)
        return opened

    def receive(self, number, direction, here, there):
        while True:
            try:
                frame, about = here.recvfrom(65536)
            except BlockingIOError:
                return
            except OSError:
                # The interface has been set down; its frames are lost.
                return
            if about[2] == PACKET_OUTGOING:
                continue
            delivered, returned = self.planes[number].carry(direction, frame)
            due = time.monotonic() + self.delay
            for out, answer in ((there, delivered), (here, returned)):
                if answer is not None and len(self.flight) < IN_FLIGHT:
                    heapq.heappush(self.flight, (due, next(self.numbers), out, answer))

    def deliver(self):
        """Sends the frames that are due. Returns the time until the next one in ms, or None."""
        while self.flight:
            wait = self.flight[0][0] - time.monotonic()
            if wait > 0:
                return wait * 1e3
            _, _, out, frame = heapq.heappop(self.flight)
            try:
                out.send(frame)
            except OSError:
                pass  # the interface is down
        return None

    def obey(self, line):
        change = json.loads(line)
        self.planes[change["plane"]].change(change)
        print("ok", flush=True)

    def run(self):
        """Carries frames until the end of standard input."""
        commands = b""
        self.poll.register(0, select.POLLIN)
        print("ready", flush=True)
        while True:
            for descriptor, _ in self.poll.poll(self.deliver()):
                if descriptor:
                    self.receive(*self.ends[descriptor])
                    continue
                read = os.read(0, 65536)
                if not read:
                    return
                *lines, commands = (commands + read).split(b"\n")
                for line in lines:
                    self.obey(line)


if __name__ == "__main__":
    try:
        Relay(float(sys.argv[1]) / 1e3, sys.argv[2:]).run()
    except KeyboardInterrupt:
        sys.exit(130)
