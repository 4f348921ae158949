#!/usr/bin/env python3
"""Writes the seeds of the fuzz target `lower_layer`.

    fuzz/layer_seeds.py fuzz/corpus/lower_layer

The target reads its input byte by byte (fuzz_targets/lower_layer/world.rs).
"""

import os
import sys

SERVER, CLIENT, OTHER = range(3)
STRANGER = 200


def step(code, end=SERVER, *rest):
    return bytes([code | end << 6, *rest])


def connect(end=CLIENT, wrong=False):
    """Connects to the server."""
    return step(0, end, (0 if end == OTHER else 1) | wrong << 1)


def send(end=CLIENT, length=3000):
    return step(2, end) + length.to_bytes(2, "big")


def run(ticks):
    """Delivers all packets for `ticks` times 10 ms."""
    return step(28, SERVER, ticks)


def wait(exponent):
    """Waits 2^n ms without delivering a packet."""
    return step(21, SERVER, exponent)


def inject(to, who, data):
    return step(16, to, who, len(data)) + data


def hello(to, who, answer, name, attempt):
    return step(19, to, who, answer, name, attempt)


UP = connect() + run(20)
SEEDS = {
    "transfer": UP + send() + run(50) + send(SERVER) + run(50) + step(23, CLIENT) + run(250),
    "two-behind-one-address": UP + connect(OTHER) + run(20) + (send() + send(OTHER) + send(SERVER)) * 4 + run(250),
    "loss-of-the-handshake": connect() + step(12) + wait(10) + step(12) + wait(11) + run(100) + send() + run(50),
    "wrong-peer": connect(wrong=True) + run(200) + UP + send() + run(50),
    "reconnects": UP + send() + step(26, CLIENT) + connect() + run(250) + send() + run(250) + step(26, CLIENT) + connect() + step(27) + wait(15) + run(100),
    "closed": UP + send() + step(25, SERVER) + run(50) + UP + send() + step(25, CLIENT) + run(50),
    "both-begin": UP + step(0, SERVER, 0) + run(50) + step(0, OTHER, 0) + step(0, SERVER, 1) + run(100) + send(SERVER) + run(100),
    "half-open": b"".join(hello(SERVER, STRANGER + n, n & 1, n, n) for n in range(8)) + step(10, SERVER, 31) + connect() + run(100) + wait(14) + wait(15),
    "bytes-to-a-session": UP + b"".join(inject(SERVER, 34, bytes([4, 1, 0, n]) + bytes(range(n, n + 40))) for n in range(8)) + step(10, SERVER, 31) + send() + run(50),
    "bytes-to-a-half-open-session": connect() + step(6) * 2 + b"".join(inject(SERVER, 34, bytes([n, 1, 1])) for n in range(6)) + step(10, SERVER, 31) + run(250),
    "hello-to-a-session": UP + hello(SERVER, 34, 0, 1, 2) + hello(SERVER, 34, 1, 1, 2) + hello(SERVER, 34, 1, 2, 2) + step(10, SERVER, 31) + send() + run(250),
    "changed-and-doubled": UP + send() * 3 + step(14, CLIENT, 2, 3, 9, 0) + step(13, CLIENT, 0, 1) + step(10, SERVER, 20) + step(13, CLIENT, 1, 4) + run(250),
}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: layer_seeds.py FOLDER")
    for name, data in SEEDS.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)
    print(f"{len(SEEDS)} seeds")


if __name__ == "__main__":
    main()
