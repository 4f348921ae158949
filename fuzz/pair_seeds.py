#!/usr/bin/env python3
"""Writes the seeds of the fuzz target `two_endpoints` that reach an extension each.

    fuzz/pair_seeds.py fuzz/corpus/two_endpoints

The target reads its input byte by byte (fuzz_targets/two_endpoints/{settings,network,operations}.rs); the
other seeds there were found by the fuzzer.
"""

import os
import sys

PARTIAL, AUTH, ADDRESSES, RECONFIG, INTERLEAVING, ECN, WITHOUT_AUTH, WILDCARD = (1 << n for n in range(8))
EXTENDED, ROOMY = 0x80, 0x0F
NEAR, FAR = 0, 1
LATER, LAST = 4, 8
IN_UDP, PORTS_OF_THEIR_OWN = 7, 8
OFFERED, REQUIRED, STRICT = 1, 2, 0x10
INTERLEAVED_PARTIAL, NR_SACK, ZERO_CHECKSUM, PROTECTED = (1 << n for n in range(4))
ROUND_ROBIN, PRIMARY_FIRST, SPLIT_REPORTS, PACKETS, SPLIT_BUFFERS = 1, 3, 4, 8, 0xC0
RFC_2960 = 5


def side(offered, auth=0, recovery=0, paths=0, more=0, few=0):
    return bytes([offered, auth >> 8, auth & 255, recovery, paths, more, few])


def world(near, far=None, flags=0, sizes=ROOMY, link=0):
    return bytes([flags, sizes | EXTENDED, link]) + near + (far or near)


def further(near, far=None):
    """Settings of the extensions added later, for a world whose link has LATER."""
    return bytes(near) + bytes(far or near)


def last(near, far=None):
    """Encapsulation of addresses and protection of chunks, for a world whose link has LAST."""
    return bytes(near) + bytes(far or near)


def protect(key, end, *steps):
    """Adds a key (0), uses it (1), removes it (2), ends the protection (3)."""
    return b"".join(more(12, end, 0x80 | key << 2 | what) for what in steps)


def rebind(which):
    """Makes the translator in front of the first side assign another port to an address."""
    return more(24, NEAR, 0x80 | which)


def base(code, end=NEAR, *rest):
    return bytes([code << 1 | end, *rest])


def more(code, end=NEAR, *rest):
    return bytes([0x40 | code << 1 | end, *rest])


def connect():
    return base(0, NEAR, 0) + run(50)


def run(ticks):
    """Delivers all packets for `ticks` times 10 ms."""
    return base(29, NEAR, ticks)


def wait(exponent):
    """Waits 2^n ms without delivering a packet."""
    return base(5, NEAR, exponent)


def send(end, stream=0, length=1000, unordered=False):
    return base(1, end, 2 | stream << 2 | unordered << 4) + length.to_bytes(2, "big")


TIMED, RETRANSMISSIONS, PRIORITY = 1, 2, 3


def partial(end, policy, value, stream=0, length=1000, unordered=False):
    return more(0, end, 2 | stream << 2 | unordered << 4) + length.to_bytes(2, "big") + bytes([policy | value << 2])


def lose_all(end=NEAR):
    return base(30, end)


def lose_kind(which):
    return more(25, NEAR, which)


MODERN = 0x7F
SEEDS = {
    "partial-timed": world(side(PARTIAL)) + connect() + partial(NEAR, TIMED, 4, length=4000) + lose_all(FAR) + wait(10) + run(200),
    "partial-retransmissions": world(side(PARTIAL)) + connect()
    + (partial(NEAR, RETRANSMISSIONS, 0, length=3000) + lose_all(FAR) + send(NEAR, 1)) * 3 + wait(11) + lose_kind(0) + run(250),
    "partial-priority": world(side(PARTIAL), sizes=7) + connect()
    + b"".join(partial(NEAR, PRIORITY, n, n & 3, 900) for n in range(12, 0, -1)) + send(NEAR, 2, 2500) + run(250),
    "partial-in-a-partial-delivery": world(side(PARTIAL), sizes=8) + connect()
    + partial(NEAR, TIMED, 9, length=16000, unordered=True) + base(10) * 6 + base(22, FAR, 15) + wait(12) + lose_all(FAR) + run(250),
    "authenticated": world(side(AUTH, 0x2FFF), side(AUTH, 0x1FFF)) + connect() + send(NEAR) + send(FAR, 2, 9000) + run(100),
    "key-changes": world(side(AUTH, 0x0FFF)) + connect() + more(12, NEAR, 2 << 2) + more(12, FAR, 2 << 2) + more(12, NEAR, 2 << 2 | 1)
    + send(NEAR) + run(50) + more(12, FAR, 2 << 2 | 1) + more(12, NEAR, 2) + more(12, NEAR, 3) + send(FAR, 1, 3000) + run(100)
    + more(12, FAR, 3 << 2) + more(12, FAR, 3 << 2 | 1) + send(FAR) + run(200),
    "addresses-move": world(side(AUTH | ADDRESSES), flags=0x80) + connect() + send(NEAR) + run(100) + more(17, NEAR, 0) + send(NEAR, 1, 5000)
    + run(200) + more(17, NEAR, 0) + run(200) + more(15, NEAR, 1) + run(100) + more(17, FAR, 1) + lose_kind(2) + run(250),
    "addresses-without-authentication": world(side(ADDRESSES | WITHOUT_AUTH | WILDCARD)) + connect() + more(17, FAR, 0) + send(FAR, 0, 5000)
    + lose_kind(3) + run(250) + more(17, FAR, 0) + more(17, FAR, 1) + run(250),
    "streams-reset-and-added": world(side(RECONFIG)) + connect() + send(NEAR, 1) + more(8, NEAR, 0b01_10_10_10) + send(NEAR, 1) + run(100)
    + more(8, FAR, 0b00_01_01_00) + lose_kind(1) + run(250) + partial(NEAR, 0, 16) + more(8, FAR, 0b00_00_01_10) + run(250),
    "association-reset": world(side(RECONFIG), side(RECONFIG, more=0x20)) + connect() + send(NEAR, 1, 5000) + run(100) + more(8, NEAR, 1)
    + send(NEAR, 1) + send(FAR, 0, 4000) + run(200) + more(8, NEAR, 0b0100) + run(200),
    "interleaved": world(side(INTERLEAVING, more=1), sizes=0x0F) + connect()
    + b"".join(send(NEAR, n & 3, 12000, bool(n & 4)) for n in range(8)) + base(16) + run(250),
    "interleaved-in-a-small-buffer": world(side(INTERLEAVING | ECN, more=5), sizes=0x0D) + connect()
    + b"".join(send(NEAR, n & 3, 9000, bool(n & 4)) for n in range(8)) + base(10) * 20 + base(22, FAR, 3) + run(250),
    "marked": world(side(ECN, recovery=MODERN)) + connect() + send(NEAR, 0, 16000) + more(22, NEAR, 3) + run(20) + send(NEAR, 0, 16000)
    + more(22, NEAR, 0) + lose_kind(6) + run(20) + lose_kind(7) + run(200),
    "path-mtu": world(side(0, paths=0x10), sizes=0x3F, link=2) + connect() + send(NEAR, 0, 16000) + run(250) + more(24, NEAR, 1) + send(NEAR, 1, 16000) + run(250),
    "potentially-failed": world(side(0, paths=0x05, recovery=MODERN)) + connect() + (send(NEAR, 0, 5000) + lose_all(FAR) + wait(11)) * 3 + run(250),
    "modern": world(side(PARTIAL | RECONFIG | ECN, recovery=MODERN, more=0xC0)) + connect() + (send(NEAR, 0, 16000) + base(16) * 2 + run(10)) * 4
    + lose_all(FAR) + wait(9) + run(250),
    "everything": world(side(0x3F, 0x0FFF, MODERN, 0x15, 0xC1), side(0x3F, 0x2FFF, MODERN, 0x11, 0xC3), flags=0x80) + connect()
    + (partial(NEAR, TIMED, 8, 1, 9000) + send(FAR, 2, 9000) + base(16) + more(8, FAR, 0b01_01_10_10) + run(60)) * 3 + more(17, NEAR, 0) + run(250),
    "interleaved-partial": world(side(PARTIAL | INTERLEAVING, more=1), link=LATER) + further([INTERLEAVED_PARTIAL, 0, 0]) + connect()
    + b"".join(partial(NEAR, TIMED, 6, n & 3, 9000, bool(n & 4)) for n in range(8)) + lose_all(FAR) + wait(11) + send(NEAR, 1) + run(250),
    "nr-sack": world(side(0), sizes=8, link=LATER) + further([NR_SACK, 0, 0]) + connect()
    + b"".join(send(NEAR, n & 3, 3000, bool(n & 1)) for n in range(8)) + base(16) + base(10) * 9 + base(22, FAR, 15) + base(10) * 9 + lose_kind(5) + run(250),
    "zero-checksum": world(side(0), link=LATER) + further([ZERO_CHECKSUM | PROTECTED, 0, 0]) + connect() + send(NEAR, 0, 9000) + base(16)
    + send(FAR, 1, 9000) + run(200) + base(19, NEAR, 0, 40, 7) + run(100),
    "multipath": world(side(0, recovery=MODERN), flags=0x80, link=LATER) + further([0, ROUND_ROBIN | SPLIT_REPORTS | PACKETS | SPLIT_BUFFERS, 4])
    + connect() + run(250) + (send(NEAR, 0, 16000) + send(FAR, 1, 16000) + base(16) * 2 + run(20)) * 4 + lose_all(FAR) + wait(10) + run(250),
    "multipath-reports": world(side(0), link=LATER) + further([NR_SACK, ROUND_ROBIN | SPLIT_REPORTS | 0x30, 1 << 3 | 3], [0x70, 2, 2 << 3 | 1]) + connect()
    + run(250) + (send(NEAR, 0, 16000) + send(FAR, 1, 16000) + base(16) + run(20)) * 4 + run(250),
    "multipath-primary-first": world(side(0), flags=0x80, link=LATER) + further([0, PRIMARY_FIRST | SPLIT_REPORTS, RFC_2960], [0, PRIMARY_FIRST, RFC_2960])
    + connect() + run(250) + (send(NEAR, 0, 16000) + send(FAR, 1, 16000) + base(16) + run(20)) * 4 + lose_all(FAR) + wait(10) + run(250),
    "encapsulated": world(side(0), flags=0x80, link=LAST) + last([IN_UDP | PORTS_OF_THEIR_OWN, 0]) + connect() + run(200)
    + (send(NEAR, 0, 9000) + rebind(0) + send(FAR, 1, 9000) + rebind(1) + base(16) + run(100)) * 3 + run(250),
    "encapsulated-and-plain": world(side(0, recovery=MODERN), link=LATER | LAST) + further([0, ROUND_ROBIN | SPLIT_REPORTS, 4]) + last([1, 0], [2, 0])
    + connect() + run(200) + (send(NEAR, 0, 9000) + send(FAR, 1, 9000) + lose_all(FAR) + wait(10) + rebind(0)) * 3 + run(250),
    "encapsulated-addresses": world(side(ADDRESSES | WITHOUT_AUTH | WILDCARD), flags=0x80, link=LAST) + last([IN_UDP, 0]) + connect() + more(17, NEAR, 0)
    + send(NEAR, 0, 5000) + rebind(1) + run(250) + more(17, NEAR, 0) + send(FAR, 0, 5000) + run(250),
    "protected": world(side(PARTIAL | RECONFIG), link=LAST) + last([0, OFFERED]) + connect() + protect(0, NEAR, 0) + protect(0, FAR, 0, 1) + protect(0, NEAR, 1)
    + send(NEAR, 0, 9000) + send(FAR, 1, 9000) + run(100) + protect(1, NEAR, 0) + protect(1, FAR, 0, 1) + protect(1, NEAR, 1) + send(NEAR, 0, 9000)
    + run(50) + protect(0, NEAR, 2) + protect(0, FAR, 2) + base(16) + base(17, NEAR, 0) + send(FAR, 2, 3000) + run(250),
    "protected-and-strict": world(side(0, recovery=MODERN), flags=0x80, link=LAST) + last([IN_UDP, OFFERED | REQUIRED | STRICT], [IN_UDP, OFFERED | STRICT]) + connect()
    + protect(2, NEAR, 0) + protect(2, FAR, 0, 1) + protect(2, NEAR, 1) + send(NEAR, 0, 9000) + rebind(0) + base(16) + run(200) + protect(2, FAR, 3) + send(FAR)
    + base(18, NEAR, 3) + run(100) + protect(1, NEAR, 1) + send(NEAR) + wait(12) + run(250),
    "protected-by-one-side": world(side(0), link=LAST) + last([0, OFFERED], [0, 0]) + connect() + send(NEAR, 0, 9000) + protect(0, NEAR, 0, 1) + send(FAR) + run(250),
    "protected-and-disturbed": world(side(0), link=LAST) + last([0, OFFERED]) + connect() + protect(0, NEAR, 0) + protect(0, FAR, 0, 1) + protect(0, NEAR, 1)
    + send(NEAR, 0, 9000) + base(19, NEAR, 1, 0, 0, 20, 9) + more(27, FAR, 0, 0x41, 1) + more(29, NEAR, 0, 1) + run(250) + send(FAR) + run(250),
    "chunks-from-nowhere": world(side(0x3D | WITHOUT_AUTH)) + connect() + send(NEAR, 0, 5000) + run(20) + send(FAR, 1, 3000)
    + b"".join(more(27, n & 1, n, 1 | n << 1 & 0x1E, n) for n in range(32)) + more(29, NEAR, 3, 1) + run(250),
}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: pair_seeds.py FOLDER")
    for name, data in SEEDS.items():
        with open(os.path.join(sys.argv[1], f"extension-{name}"), "wb") as file:
            file.write(data)
    print(f"{len(SEEDS)} seeds")


if __name__ == "__main__":
    main()
