"""Extensions on the socket API of Linux SCTP: negotiation, operations and notifications."""

import errno
import struct
import time

import sctp_socket as sctp
from options import EXTENSIONS, emit

# In the order in which they may be set: dynamic addresses require authentication to be set before.
SUPPORTED = {"partial": 113, "reconfiguration": 117, "interleaving": 125, "authentication": 129, "addresses": 128, "ecn": 130}
AUTH_CHUNK, HMAC_IDENT, AUTH_KEY, AUTH_ACTIVE_KEY = 21, 22, 23, 24
SET_PEER_PRIMARY, BINDX_REMOVE = 5, 101
ENABLE_STREAM_RESET, RESET_STREAMS, RESET_ASSOC, ADD_STREAMS, SCHEDULER = 118, 119, 120, 121, 123
SHA1, SHA256, ROUND_ROBIN = 1, 3, 2
EVERY_REQUEST = 7
INCOMING, OUTGOING, DENIED, FAILED = 1, 2, 4, 8
STREAM_RESET, ASSOC_RESET, STREAM_CHANGE = 0x800A, 0x800B, 0x800C
EVENTS = (STREAM_RESET, ASSOC_RESET, STREAM_CHANGE)
CMSG_PRINFO = 5
RULES = {"timed": 0x10, "retransmissions": 0x20}
NOT_NOW = (errno.EAGAIN, errno.EINPROGRESS, errno.EALREADY)
RETRY = 0.02


def _set(sock, name, value):
    sock.setsockopt(sctp.SOL_SCTP, name, value)


def apply(sock, options):
    """Sets the options of the extensions, before the socket is bound."""
    offered = options.extensions
    if offered is not None:
        if "interleaving" in offered:
            _set(sock, sctp.FRAGMENT_INTERLEAVE, 2)
        for name, number in SUPPORTED.items():
            if name == "interleaving" and name not in offered:
                continue  # off by default; setting it requires FRAGMENT_INTERLEAVE
            _set(sock, number, struct.pack("=iI", 0, name in offered))
        _set(sock, ENABLE_STREAM_RESET, struct.pack("=iI", 0, EVERY_REQUEST if "reconfiguration" in offered else 0))
    if options.authenticate or options.keys:
        algorithms = [SHA1] if options.hmac == "sha1" else [SHA256, SHA1]
        _set(sock, HMAC_IDENT, struct.pack(f"=I{len(algorithms)}H", len(algorithms), *algorithms))
    for kind in options.authenticate:
        _set(sock, AUTH_CHUNK, bytes([kind]))
    for number, secret in options.keys:
        _set(sock, AUTH_KEY, struct.pack("=iHH", 0, number, len(secret)) + secret)
    if options.keys:
        use_key(sock, options.keys[0][0])
    if options.scheduler == "rr":
        _set(sock, SCHEDULER, struct.pack("=iI", 0, ROUND_ROBIN))


def use_key(sock, number):
    _set(sock, AUTH_ACTIVE_KEY, struct.pack("=iHxx", 0, number))


def in_force(sock):
    """Returns the extensions in force, which both sides support."""
    found = []
    for name in EXTENSIONS:
        _, value = struct.unpack("=iI", sock.getsockopt(sctp.SOL_SCTP, SUPPORTED[name], 8))
        if value:
            found.append(name)
    return found


def rule(options):
    """Returns the control message with the partial reliability policy of a message."""
    if not options.reliability:
        return []
    kind, value = options.reliability
    return [(sctp.SOL_SCTP, CMSG_PRINFO, struct.pack("=HxxI", RULES[kind], value))]


class ExtensionPlan:
    """Operations that are not complete."""

    def __init__(self, operations):
        self.waiting, self.retry_at = list(operations), 0.0
        self.blocks = False  # an operation waits until all sent data is acknowledged

    def carry_out(self, sock, done):
        while self.waiting and self.waiting[0][2] <= done and time.monotonic() >= self.retry_at:
            name, value, _, whole = self.waiting[0]
            try:
                self.perform(sock, name, value)
                result = "asked"
            except OSError as problem:
                if problem.errno in NOT_NOW:
                    self.blocks, self.retry_at = True, time.monotonic() + RETRY
                    return
                result = problem.strerror
            self.blocks = False
            self.waiting.pop(0)
            emit("did", operation=whole, result=result)

    @staticmethod
    def perform(sock, name, value):
        port = sock.getsockname()[1]
        if name == "add-address":
            _set(sock, sctp.BINDX_ADD, sctp.sockaddr(value, port))
        elif name == "delete-address":
            _set(sock, BINDX_REMOVE, sctp.sockaddr(value, port))
        elif name == "set-primary":
            _set(sock, SET_PEER_PRIMARY, struct.pack("=i128s", 0, sctp.sockaddr(value, port)))
        elif name == "reset-out":
            _set(sock, RESET_STREAMS, struct.pack("=iHH", 0, OUTGOING, 0))
        elif name == "reset-in":
            _set(sock, RESET_STREAMS, struct.pack("=iHH", 0, INCOMING, 0))
        elif name == "reset-association":
            _set(sock, RESET_ASSOC, struct.pack("=i", 0))
        elif name == "add-streams":
            outgoing, incoming = (int(part) for part in value.split("/"))
            _set(sock, ADD_STREAMS, struct.pack("=iHH", 0, incoming, outgoing))
        elif name == "use-key":
            use_key(sock, int(value))
        else:
            raise OSError(errno.EINVAL, f"no operation {name}")


def notification(kind, raw):
    """Returns the report of a notification about an extension."""
    (flags,) = struct.unpack_from("=H", raw, 2)
    success = not flags & (DENIED | FAILED)
    if kind == STREAM_RESET:
        for bit, direction in ((INCOMING, "incoming"), (OUTGOING, "outgoing")):
            if flags & bit:
                emit("streams-reset", direction=direction, success=success)
    elif kind == ASSOC_RESET:
        emit("association-reset", success=success)
    elif kind == STREAM_CHANGE:
        incoming, outgoing = struct.unpack_from("=HH", raw, 12)
        emit("streams-added", streams_in=incoming, streams_out=outgoing, success=success)
