"""The socket API of Linux SCTP (RFC 6458; numbers of linux/sctp.h) as far as the peer needs it."""

import errno
import ipaddress
import socket
import struct

SOL_SCTP = 132
SO_SNDBUFFORCE = 32
RTOINFO, ASSOCINFO, INITMSG, NODELAY, PEER_ADDR_PARAMS, STATUS = 0, 1, 2, 3, 9, 14
FRAGMENT_INTERLEAVE, RECVRCVINFO, BINDX_ADD, GET_PEER_ADDRS, CONNECTX, EVENT = 18, 32, 100, 108, 110, 127
CMSG_SNDINFO, CMSG_RCVINFO = 2, 3
SND_UNORDERED = 1
MSG_EOR, MSG_NOTIFICATION = 0x80, 0x8000
ASSOC_CHANGE, PEER_ADDR_CHANGE, SHUTDOWN_EVENT, PARTIAL_DELIVERY = 0x8001, 0x8002, 0x8005, 0x8006
COMM_UP, COMM_LOST, RESTART, SHUTDOWN_COMP, CANT_STR_ASSOC = range(5)
PATH_STATES = ["reachable", "unreachable", "removed", "added", "primary", "confirmed", "potentially-failed"]
SNDINFO = struct.Struct("=HHIIi")
RCVINFO = struct.Struct("=HHHxxIIIIi")


def sockaddr(address, port):
    """Returns a struct sockaddr_in or sockaddr_in6."""
    ip = ipaddress.ip_address(address)
    if ip.version == 4:
        return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + ip.packed + bytes(8)
    return struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, 0) + ip.packed + bytes(4)


def parse_sockaddr(raw):
    """Returns (address as text, number of bytes used)."""
    (family,) = struct.unpack_from("=H", raw)
    if family == socket.AF_INET:
        return str(ipaddress.ip_address(bytes(raw[4:8]))), 16
    ip = ipaddress.IPv6Address(bytes(raw[8:24]))
    return str(ip.ipv4_mapped or ip), 28


def open_socket(options):
    """Returns an unbound one-to-one style socket with the options of the command line."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    sock.setblocking(False)
    # A complete message must fit, or the stack returns EMSGSIZE.
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 20 << 20 if max(options.sizes[1]) > 1 << 20 else 4 << 20)
    sock.setsockopt(SOL_SCTP, INITMSG, struct.pack("=HHHH", options.streams, 65535, 0, 0))
    sock.setsockopt(SOL_SCTP, RECVRCVINFO, 1)
    sock.setsockopt(SOL_SCTP, NODELAY, int(options.nodelay))
    for kind in (ASSOC_CHANGE, PEER_ADDR_CHANGE, SHUTDOWN_EVENT, PARTIAL_DELIVERY):
        sock.setsockopt(SOL_SCTP, EVENT, struct.pack("=iHBx", 0, kind, 1))
    rto = [options.rto_initial or 0, options.rto_max or 0, options.rto_min or 0]
    if any(rto):
        sock.setsockopt(SOL_SCTP, RTOINFO, struct.pack("=iIII", 0, *rto))
    if options.assoc_max_retrans:
        sock.setsockopt(SOL_SCTP, ASSOCINFO, struct.pack("=iHHIII", 0, options.assoc_max_retrans, 0, 0, 0, 0))
    if options.path_max_retrans or options.heartbeat:
        # struct sctp_paddrparams is packed; SPP_HB_ENABLE is 1.
        params = struct.pack(
            "=i128sIHIIIIBx", 0, bytes(128), options.heartbeat or 0, options.path_max_retrans or 0, 0, 0,
            1 if options.heartbeat else 0, 0, 0,
        )
        sock.setsockopt(SOL_SCTP, PEER_ADDR_PARAMS, params)
    return sock


def bind(sock, addresses, port):
    """Binds to these addresses, or to all of them for an empty list."""
    if not addresses:
        sock.bind(("::", port))
        return
    sock.setsockopt(SOL_SCTP, BINDX_ADD, sockaddr(addresses[0], port))
    actual = sock.getsockname()[1]
    for address in addresses[1:]:
        sock.setsockopt(SOL_SCTP, BINDX_ADD, sockaddr(address, actual))


def connect(sock, addresses, port):
    """Starts the handshake; the outcome comes as a notification or as SO_ERROR."""
    try:
        sock.setsockopt(SOL_SCTP, CONNECTX, b"".join(sockaddr(a, port) for a in addresses))
    except OSError as problem:
        if problem.errno != errno.EINPROGRESS:
            raise


def peer_addresses(sock):
    """Returns the peer addresses of the association."""
    raw = sock.getsockopt(SOL_SCTP, GET_PEER_ADDRS, 1024)
    (number,) = struct.unpack_from("=I", raw, 4)
    found, at = [], 8
    for _ in range(number):
        address, used = parse_sockaddr(raw[at:])
        found.append(address)
        at += used
    return found


def send(sock, stream, ppid, flags, data, more=()):
    """Sends one message; BlockingIOError if the send buffer is full. `ppid` in host byte order."""
    info = SNDINFO.pack(stream, flags, socket.htonl(ppid), 0, 0)
    sock.sendmsg([data] if data else [], [(SOL_SCTP, CMSG_SNDINFO, info), *more], socket.MSG_NOSIGNAL)


def receive(sock, buffer):
    """Returns (bytes, flags, (stream, ppid, unordered) or None) of the next part of a message or a notification."""
    size, ancillary, flags, _ = sock.recvmsg_into([buffer], 256)
    for level, kind, raw in ancillary:
        if level == SOL_SCTP and kind == CMSG_RCVINFO:
            stream, _, info_flags, ppid, *_ = RCVINFO.unpack(raw[: RCVINFO.size])
            return size, flags, (stream, socket.ntohl(ppid), bool(info_flags & SND_UNORDERED))
    return size, flags, None
