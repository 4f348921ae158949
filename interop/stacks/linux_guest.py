#!/usr/bin/python3
"""Sender and receiver on the Linux kernel's SCTP; linux_sctp.py runs this program in its guest, with its own arguments."""

import argparse
import contextlib
import errno
import json
import os
import signal
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../kernel"))

import sctp_socket as sctp  # noqa: E402
from command_line import parse  # noqa: E402

# Options of sctp_socket.open_socket that these programs do not have.
FIXED = {"nodelay": True, "assoc_max_retrans": None, "heartbeat": None}
SCTP_PRIMARY_ADDR, SCTP_PEER_ADDR_THLDS = 6, 31
# The peer's guest boots at the same time: seconds until the sender ends without an association, and between two attempts.
CONNECT_TIME = 60
CONNECT_PAUSE = 0.1
# Seconds in which the association shuts down after the last message.
CLOSE_TIME = 10
ENDS = {errno.ECONNRESET: "abort", errno.EPIPE: "abort", errno.ETIMEDOUT: "lost"}


def note(text):
    print(f"linux-sctp: {text}", file=sys.stderr, flush=True)


class Ended(Exception):
    """End of the association; the text is the reason."""


@contextlib.contextmanager
def association(sock):
    """Turns errors of the socket into `Ended`. A program that is stopped aborts its association."""
    try:
        yield
    except OSError as problem:
        raise Ended(ENDS.get(problem.errno, problem.strerror)) from problem
    except SystemExit:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
        sock.close()
        raise


def open_socket(options):
    """Returns a socket bound to the local addresses, with the options of the command line."""
    # Stream 0 is not used.
    streams, size = (options.streams + 1, options.size) if options.role == "send" else (1, 1)
    sock = sctp.open_socket(argparse.Namespace(**{**vars(options), **FIXED, "streams": streams, "sizes": (None, [size])}))
    if options.pf_max_retrans is not None:
        # struct sctp_paddrthlds of all paths; 0 as Path.Max.Retrans leaves it unchanged.
        thresholds = struct.pack("=i4x128sHH4x", 0, bytes(128), options.path_max_retrans or 0, options.pf_max_retrans)
        sock.setsockopt(sctp.SOL_SCTP, SCTP_PEER_ADDR_THLDS, thresholds)
    sock.setblocking(True)
    # The kernel follows the addresses of sockets without one.
    sctp.bind(sock, [] if options.follow else options.local, options.port if options.role == "receive" else 0)
    return sock


def connect(options):
    """Returns a socket with an association, once the peer answers."""
    deadline = time.monotonic() + CONNECT_TIME
    while True:
        sock = open_socket(options)
        try:
            sctp.connect(sock, options.peer, options.port)
            primary = sctp.sockaddr(options.peer[0], options.port)
            sock.setsockopt(sctp.SOL_SCTP, SCTP_PRIMARY_ADDR, struct.pack("=i128s", 0, primary))
            return sock
        except OSError as problem:
            sock.close()
            if time.monotonic() > deadline:
                raise
            reason = problem
        note(f"no association yet: {reason.strerror}")
        time.sleep(CONNECT_PAUSE)


def read(sock, buffer):
    """Reads a part of a message, and returns its size and whether it is the last one. Raises `Ended`."""
    while True:
        size, flags, _ = sctp.receive(sock, buffer)
        if size == 0:
            raise Ended("shutdown")
        if not flags & sctp.MSG_NOTIFICATION:
            return size, bool(flags & sctp.MSG_EOR)
        kind, change = struct.unpack_from("=H6xH", buffer)
        if kind == sctp.ASSOC_CHANGE and change == sctp.SHUTDOWN_COMP:
            raise Ended("shutdown")
        if kind == sctp.ASSOC_CHANGE and change == sctp.COMM_LOST:
            raise Ended(ENDS.get(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "lost"))


def wait_for_end(sock):
    """Sends SHUTDOWN once all messages are acknowledged, and waits for the end of the association."""
    sock.shutdown(socket.SHUT_WR)
    while True:
        read(sock, bytearray(4096))


def send(options):
    """Sends the messages at their times. Raises `Ended`."""
    sock = connect(options)
    note("the association is up")
    filling = bytes(options.size - 8)
    with association(sock):
        start = time.monotonic()
        for number in range(options.count):
            time.sleep(max(0, start + number * options.interval_us / 1e6 - time.monotonic()))
            sctp.send(sock, 1 + number % options.streams, 0, 0, struct.pack(">Q", number) + filling)
        wait_for_end(sock)


def receive(options):
    """Prints the messages of one association. Raises `Ended` if it ends before the last one."""
    listener = open_socket(options)
    listener.listen(1)
    note("listening")
    sock, _ = listener.accept()
    buffer, begin, left = bytearray(1 << 16), b"", options.count
    with association(sock):
        while left:
            size, is_last = read(sock, buffer)
            begin = (begin + buffer[:size])[:8]
            if is_last:
                print(json.dumps({"n": struct.unpack(">Q", begin)[0], "t": round(time.monotonic(), 6)}), flush=True)
                begin, left = b"", left - 1
        # The last message may not have been acknowledged.
        sock.settimeout(CLOSE_TIME)
        with contextlib.suppress(Ended, TimeoutError):
            wait_for_end(sock)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = parse("linux-sctp", "")
    try:
        (send if options.role == "send" else receive)(options)
    except Ended as end:
        note(f"the association has ended: {end}")
        if options.role == "send":
            return 0 if str(end) == "shutdown" else 1
        print(json.dumps({"end": str(end)}), flush=True)
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except OSError as problem:
        note(problem.strerror)
        status = 3
    sys.exit(status)
