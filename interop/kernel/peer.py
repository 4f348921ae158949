#!/usr/bin/python3
"""The peer program (interop/README.md) on the socket API of Linux SCTP: one association, one thread."""

import collections
import errno
import os
import select
import signal
import socket
import struct
import sys
import time

import extensions
import sctp_socket as sctp
from messages import Check, MessageSource
from options import STARTED, emit, parser

PIECE = 1 << 18
# Limit of echoes that the peer does not read.
MOST_ECHO = 8 << 20
MOST_PIECES_A_TURN = 64
RATE_TICK = 0.005


class Ended(Exception):
    """End of the association, with its kind and its originator."""

    def __init__(self, ended, by, cause=0):
        super().__init__(ended)
        self.ended, self.by, self.cause = ended, by, cause


class Peer:
    """Association from the socket to the summary."""

    def __init__(self, options):
        self.options = options
        self.sock = sctp.open_socket(options)
        extensions.apply(self.sock, options)
        for kind in extensions.EVENTS:
            self.sock.setsockopt(sctp.SOL_SCTP, sctp.EVENT, struct.pack("=iHBx", 0, kind, 1))
        self.plan, self.rule = extensions.ExtensionPlan(options.do), extensions.rule(options)
        self.check, self.source = Check(), None
        self.sent = [0, 0]
        self.received = [0, 0, 0]
        self.queue, self.queued = collections.deque(), 0
        self.buffer = bytearray(PIECE)
        self.pieces = []
        self.up = self.sent_printed = self.ending = self.peer_shuts = self.path_lost = False
        self.stop = False
        self.error = 0
        self.due = options.progress

    # Set-up

    def run(self):
        try:
            self.open()
            while True:
                self.turn()
        except Ended as end:
            return self.finish(end)

    def open(self):
        options = self.options
        listen = options.role == "listen"
        sctp.bind(self.sock, options.local, options.port if listen else options.local_port)
        port = self.sock.getsockname()[1]
        if not listen:
            emit("ready", stack="linux", port=port)
            sctp.connect(self.sock, options.addresses, options.port)
            return
        listener = self.sock
        listener.listen(1)
        emit("ready", stack="linux", port=port)
        while not self.wait(listener, select.POLLIN):
            pass
        self.sock, _ = listener.accept()
        self.sock.setblocking(False)
        listener.close()
        # COMM_UP was reported on the listening socket.
        self.established()

    def established(self):
        status = self.sock.getsockopt(sctp.SOL_SCTP, sctp.STATUS, 256)
        streams_in, streams_out = struct.unpack_from("=HH", status, 16)
        self.up = True
        self.up_since = time.monotonic()
        emit("up", streams_in=streams_in, streams_out=streams_out, peer=sctp.peer_addresses(self.sock),
             extensions=extensions.in_force(self.sock))
        if self.options.mode == "source":
            self.source = MessageSource(self.options, min(streams_out, self.options.streams))
            self.load()

    # The loop

    def wait(self, sock, events):
        """Returns the poll events of the socket; raises Ended at the time limit and on a signal."""
        if self.stop:
            raise Ended("failed", "self")
        left = STARTED + self.options.time_limit - time.monotonic()
        if left <= 0:
            raise Ended("timeout", "self")
        poll = select.poll()
        poll.register(sock, events)
        soon = self.ahead_of_rate() or self.plan.waiting
        ready = poll.poll(min(left, RATE_TICK if soon else 1.0) * 1000)
        return ready[0][1] if ready else 0

    def turn(self):
        events = select.POLLIN if self.queued < MOST_ECHO else 0
        if self.may_write():
            events |= select.POLLOUT
        ready = self.wait(self.sock, events)
        if ready & (select.POLLIN | select.POLLERR | select.POLLHUP):
            self.read()
        if ready & select.POLLOUT and self.up:
            self.write()
        if self.up and not self.peer_shuts:
            self.plan.carry_out(self.sock, self.sent[1] + self.received[1])
        self.end_if_done()

    def read(self):
        for _ in range(MOST_PIECES_A_TURN):
            try:
                size, flags, info = sctp.receive(self.sock, self.buffer)
            except BlockingIOError:
                return
            except OSError as problem:
                raise self.broken(problem.errno) from None
            if flags & sctp.MSG_NOTIFICATION:
                self.notification(bytes(self.buffer[:size]))
            elif size == 0:
                raise Ended("shutdown", "self" if self.ending else "peer")
            elif not flags & sctp.MSG_EOR:
                self.pieces.append(bytes(self.buffer[:size]))
            else:
                self.message(size, info)

    def message(self, size, info):
        data = memoryview(self.buffer)[:size]
        if self.pieces:
            data = memoryview(b"".join([*self.pieces, data]))
            self.pieces = []
        stream, ppid, unordered = info
        self.received[0] += 1
        self.received[1] += len(data)
        self.received[2] += unordered
        if self.options.mode == "echo":
            self.queue.append((stream, ppid, unordered, bytes(data)))
            self.queued += len(data)
            self.write()
        else:
            self.check.message(stream, ppid, unordered, data)
        if self.options.progress and self.received[1] >= self.due:
            self.due = self.received[1] - self.received[1] % self.options.progress + self.options.progress
            emit("progress", received=self.received[1], sent=self.sent[1])

    def load(self):
        """Keeps one message of the source in the queue."""
        message = self.source.next()
        if message:
            self.queue.append(message)
            self.queued += len(message[3])
        elif not self.sent_printed:
            self.sent_printed = True
            emit("sent", messages=self.sent[0], bytes=self.sent[1])

    def ahead_of_rate(self):
        return bool(self.source and self.options.rate) and (
            self.sent[1] > self.options.rate * (time.monotonic() - self.up_since)
        )

    def is_held(self):
        """Whether --hold stops the source until a path fails."""
        hold = self.options.hold
        return bool(self.source and hold) and self.sent[1] >= hold and not self.path_lost

    def may_write(self):
        return self.up and self.queue and not (
            self.ending or self.peer_shuts or self.plan.blocks or self.ahead_of_rate() or self.is_held()
        )

    def write(self):
        while self.may_write():
            stream, ppid, unordered, data = self.queue[0]
            try:
                sctp.send(self.sock, stream, ppid, sctp.SND_UNORDERED if unordered else 0, data, self.rule)
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno == errno.EINVAL:
                    self.check.fail(f"stream {stream} is not one of the outbound streams")
                elif problem.errno in (errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.ETIMEDOUT):
                    # The notification reports the end, but this call has consumed the error number.
                    self.error = self.error or problem.errno
                    return
                else:
                    self.check.fail(f"sending {len(data)} bytes on stream {stream}: {problem.strerror}")
            else:
                self.sent[0] += 1
                self.sent[1] += len(data)
            self.queue.popleft()
            self.queued -= len(data)
            if self.source:
                self.load()

    def end_if_done(self):
        options = self.options
        awaits_peer = options.end == "wait" or (options.mode != "source" and options.expect == 0)
        if awaits_peer or self.ending or self.peer_shuts or not self.up:
            return
        if self.plan.waiting or self.queue or (self.source and self.source.left) or self.received[1] < options.expect:
            return
        self.ending = True
        if options.end == "abort":
            self.drop()
            raise Ended("abort", "self")
        self.sock.shutdown(socket.SHUT_WR)

    # Notifications

    def notification(self, raw):
        (kind,) = struct.unpack_from("=H", raw)
        if kind == sctp.SHUTDOWN_EVENT:
            self.peer_shuts = True
            emit("shutdown")
        elif kind == sctp.PEER_ADDR_CHANGE:
            state, _ = struct.unpack_from("=ii", raw, 136)
            address, _ = sctp.parse_sockaddr(raw[8:136])
            emit("path", addr=address, state=sctp.PATH_STATES[state])
            self.path_lost |= sctp.PATH_STATES[state] == "unreachable"
        elif kind == sctp.PARTIAL_DELIVERY:
            self.pieces = []
            if not self.options.gaps:
                self.check.fail("a partial delivery was aborted")
        elif kind in extensions.EVENTS:
            extensions.notification(kind, raw)
        elif kind == sctp.ASSOC_CHANGE:
            self.association_change(raw)

    def association_change(self, raw):
        state, error = struct.unpack_from("=HH", raw, 8)
        if state == sctp.COMM_UP and not self.up:
            self.established()
        elif state == sctp.RESTART:
            emit("restart")
        elif state == sctp.SHUTDOWN_COMP:
            raise Ended("shutdown", "self" if self.ending and not self.peer_shuts else "peer")
        elif state == sctp.CANT_STR_ASSOC:
            raise Ended("refused", "self")
        elif state == sctp.COMM_LOST:
            number = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or self.error
            raise self.broken(number, socket.ntohs(error))

    def broken(self, number, cause=0):
        """Returns the end that an error number of the socket indicates."""
        if not self.up:
            return Ended("refused", "self", cause)
        if number == errno.ECONNRESET:
            return Ended("abort", "peer", cause)
        if number == errno.ECONNABORTED:
            return Ended("abort", "self", cause)
        print(f"linux-peer: the association is lost: {errno.errorcode.get(number, number)}", file=sys.stderr)
        return Ended("lost", "self", cause)

    # The end

    def finish(self, end):
        options = self.options
        if end.ended in ("failed", "timeout"):
            self.drop()
        if end.ended == "shutdown" and options.mode != "echo" and not options.gaps:
            self.check.complete()
        ok = end.ended in ("shutdown", "abort") and self.check.errors == 0 and self.received[1] >= options.expect
        if options.mode == "source" and not (end.ended == "abort" and end.by == "peer"):
            ok = ok and self.sent[1] == options.bytes
        emit(
            "end", ok=ok, ended=end.ended, by=end.by, cause=end.cause,
            sent={"messages": self.sent[0], "bytes": self.sent[1]},
            received=dict(zip(("messages", "bytes", "unordered"), self.received)),
            errors=self.check.errors,
        )
        linger_until = time.monotonic() + options.linger
        while not self.stop and time.monotonic() < linger_until:
            time.sleep(0.05)
        return 0 if ok else 1

    def drop(self):
        """SO_LINGER of 0 makes close() an ABORT; the flag SCTP_ABORT is not for one-to-one sockets."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def main():
    options = parser("linux-peer").parse_args()
    try:
        peer = Peer(options)
    except OSError as problem:
        print(f"linux-peer: this kernel has no SCTP sockets ({problem.strerror}); load its module sctp", file=sys.stderr)
        return 3

    def stop(_number, _frame):
        peer.stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        return peer.run()
    except OSError as problem:
        print(f"linux-peer: {problem}; check --local, the port and the routes of this host", file=sys.stderr)
        return 3


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
