#!/usr/bin/env python3
"""Message stream in both directions on a socket of the system: SCTP's one-to-one style, MPTCP, or M3UA on SCTP.

    stream.py sctp|mptcp listen PORT [--size BYTES] [--interval-ms MS] [--mute]
    stream.py sctp|mptcp|m3ua connect ADDR PORT [--size BYTES] [--interval-ms MS] [--mute]

With `m3ua` it is an ASP whose messages its signalling gateway sends back: they have its own point code as destination.

Each side sends one message at each interval, with its number, until SIGUSR1. What the stack does not accept at once is queued. JSON lines on
standard output (README.md, "The table of redundancy"); times are those of the host's clock in s.
"""

import argparse
import collections
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

IPPROTO_MPTCP = 262
SCTP_NODELAY, SCTP_SOCKOPT_BINDX_ADD = 3, 100
# Seconds until a connection is tried again, and between two outputs of arrivals and of states.
RETRY, OUTPUT, LOOK = 0.2, 0.25, 0.25
CONNECT_TIME = 60
# M3UA (RFC 4666): class and type of a message, tags of parameters, and the routing context and point code of the ASP.
DATA, BEAT, BEAT_ACK = (1, 1), (3, 3), (3, 6)
ASP_UP, ASP_UP_ACK, ASP_ACTIVE, ASP_ACTIVE_ACK = (3, 1), (3, 4), (4, 1), (4, 3)
ROUTING_CONTEXT, PROTOCOL_DATA = 6, 0x210
CONTEXT, POINT_CODE = 100, 1
# Header of the message, routing context, and the parameter with the routing label, in front of the user's data.
M3UA_HEAD = 8 + 8 + 4 + 12
SCTP_SNDINFO, M3UA_PPID = 2, 3
STATES = {"0": "inactive", "1": "potentially-failed", "2": "active", "3": "unconfirmed"}

lock = threading.Lock()


def emit(event, **fields):
    with lock:
        print(json.dumps({"event": event, "t": round(time.time(), 4), **fields}), flush=True)


def linux_paths():
    """Returns the states of the paths of the kernel's SCTP, by the address of the peer."""
    try:
        with open("/proc/net/sctp/remaddr", encoding="ascii") as file:
            names, *rows = [line.split() for line in file]
    except (OSError, ValueError):
        return None
    column = names.index("STATE") if "STATE" in names else -1
    return {row[0]: STATES.get(row[column], row[column]) for row in rows if len(row) > column}


def watch_paths():
    """Prints the states of the kernel's paths when they change."""
    last = None
    while True:
        if (paths := linux_paths()) not in (None, last):
            emit("paths", paths=paths)
            last = paths
        time.sleep(LOOK)


def sockaddr(address, port):
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(address) + bytes(8)


class Stream:
    """One side of the stream."""

    def __init__(self, options):
        self.options = options
        self.is_sctp = options.protocol != "mptcp"
        self.arrivals, self.rest = [], b""
        self.queue = collections.deque()
        self.sent = self.numbered = 0
        self.flushed = 0.0
        self.stopped, self.stop_requested = options.mute, False
        signal.signal(signal.SIGUSR1, self.request_stop)

    def request_stop(self, *_):
        self.stop_requested = True

    def open(self):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP if self.is_sctp else IPPROTO_MPTCP)
        if not self.is_sctp:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return made

    def no_delay(self, made):
        if self.is_sctp:
            made.setsockopt(socket.IPPROTO_SCTP, SCTP_NODELAY, 1)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def listen(self):
        listener = self.open()
        listener.bind(("0.0.0.0", self.options.port))
        listener.listen(8)
        emit("ready")
        accepted, _ = listener.accept()
        return accepted, listener

    def connect(self):
        emit("ready")
        deadline = time.monotonic() + CONNECT_TIME
        while True:
            made = self.open()
            try:
                made.connect((self.options.address, self.options.port))
                return made, None
            except OSError as problem:
                made.close()
                if time.monotonic() > deadline:
                    emit("end", reason=f"connect: {problem.strerror}")
                    sys.exit(1)
            time.sleep(RETRY)

    def run(self):
        """Sends and receives until the association ends."""
        made, _listener = self.listen() if self.options.role == "listen" else self.connect()
        self.no_delay(made)
        made.setblocking(False)
        emit("up")
        start = time.monotonic()
        while True:
            now = time.monotonic()
            interval = self.options.interval_ms / 1e3
            if self.stop_requested and not self.stopped:
                self.stopped = True
                emit("stopped", count=self.numbered)
            while not self.stopped and start + self.numbered * interval <= now:
                self.queue.append(struct.pack("!Q", self.numbered) + bytes(self.options.size - 8))
                self.numbered += 1
            reason = self.write(made)
            self.flush(now)
            wait = OUTPUT
            if not self.stopped:
                wait = min(wait, max(0, start + self.numbered * interval - time.monotonic()))
            # A blocked writer tries again at the next message.
            readable, _, _ = select.select([made], [], [], wait)
            if readable:
                reason = self.read(made) or reason
            if reason:
                self.flush(now, True)
                emit("end", reason=reason, sent=self.sent)
                return

    def write(self, made):
        """Sends what is queued. Returns the reason if the association has ended."""
        while self.queue:
            try:
                size = self.send(made, self.queue[0])
            except BlockingIOError:
                return None
            except OSError as problem:
                return os.strerror(problem.errno)
            if size < len(self.queue[0]):
                self.queue[0] = self.queue[0][size:]
                continue
            self.queue.popleft()
            self.sent += 1
        return None

    def read(self, made):
        """Receives what has arrived. Returns the reason if the association has ended."""
        while True:
            try:
                data = made.recv(65536)
            except BlockingIOError:
                return None
            except OSError as problem:
                return os.strerror(problem.errno)
            if not data:
                return "closed by the peer"
            self.take(made, data)

    def send(self, made, message):
        return made.send(message, socket.MSG_NOSIGNAL)

    def take(self, _made, data):
        """Records the messages of what has arrived."""
        self.rest += data
        while len(self.rest) >= self.options.size:
            self.arrivals.append((struct.unpack_from("!Q", self.rest)[0], round(time.time(), 4)))
            self.rest = self.rest[self.options.size :]

    def flush(self, now, at_once=False):
        if self.arrivals and (at_once or now - self.flushed >= OUTPUT):
            emit("arrived", messages=self.arrivals)
            self.arrivals, self.flushed = [], now


def m3ua(kind, parameters=b""):
    """Returns an M3UA message."""
    return struct.pack(">BBBBI", 1, 0, *kind, 8 + len(parameters)) + parameters


def routing_context():
    return struct.pack(">HHI", ROUTING_CONTEXT, 8, CONTEXT)


class M3uaStream(Stream):
    """Stream of an ASP."""

    def connect(self):
        made, listener = super().connect()
        # SCCP (3) of the national network (2).
        self.label = struct.pack(">IIBBBB", POINT_CODE + 1, POINT_CODE, 3, 2, 0, 0)
        for stream, request, answer, parameters in ((0, ASP_UP, ASP_UP_ACK, b""), (0, ASP_ACTIVE, ASP_ACTIVE_ACK, routing_context())):
            self.send_on(made, stream, m3ua(request, parameters))
            while tuple(made.recv(65536)[2:4]) != answer:
                pass
        return made, listener

    @staticmethod
    def send_on(made, stream, message):
        info = struct.pack("=HHIIi", stream, 0, socket.htonl(M3UA_PPID), 0, 0)
        return made.sendmsg([message], [(socket.IPPROTO_SCTP, SCTP_SNDINFO, info)], socket.MSG_NOSIGNAL)

    def send(self, made, message):
        data = struct.pack(">HH", PROTOCOL_DATA, 4 + len(self.label) + len(message)) + self.label + message
        self.send_on(made, 1, m3ua(DATA, routing_context() + data))
        return len(message)

    def take(self, made, data):
        kind = tuple(data[2:4])
        if kind == BEAT:
            self.send_on(made, 0, m3ua(BEAT_ACK, data[8:]))
        elif kind == DATA:
            super().take(made, data[M3UA_HEAD : M3UA_HEAD + self.options.size])


def main():
    top = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    top.add_argument("protocol", choices=["sctp", "mptcp", "m3ua"])
    roles = top.add_subparsers(dest="role", required=True)
    for role in ("listen", "connect"):
        options = roles.add_parser(role)
        if role == "connect":
            options.add_argument("address")
        options.add_argument("port", type=int)
        options.add_argument("--size", type=int, default=100)
        options.add_argument("--interval-ms", type=float, default=20)
        options.add_argument("--mute", action="store_true", help="send nothing")
    options = top.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if linux_paths() is not None:
        threading.Thread(target=watch_paths, daemon=True).start()
    (M3uaStream if options.protocol == "m3ua" else Stream)(options).run()


if __name__ == "__main__":
    main()
