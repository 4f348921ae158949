"""Messages with content that the receiver can compute ("Messages" in interop/README.md)."""

import struct

from options import MAX_MESSAGE, emit

MASK = (1 << 64) - 1
# Any run of MAX_MESSAGE bytes that counts up modulo 256 is a slice of this.
_RAMP = bytes(range(256)) * (MAX_MESSAGE // 256 + 1)
_RAMP_VIEW = memoryview(_RAMP)


def splitmix64(seed, n):
    """Returns number n of the sequence that starts at seed."""
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def content(stream, index, length):
    """Returns the user data of message `index` of `stream`."""
    start = (index + 29 * stream) & 255
    if length < 8:
        return _RAMP[start : start + length]
    return struct.pack(">II", index, length) + _RAMP[start + 8 : start + length]


class MessageSource:
    """Messages of one sender, in order."""

    def __init__(self, options, streams):
        self.options, self.streams = options, streams
        self.left, self.number = options.bytes, 0

    def next(self):
        """Returns (stream, ppid, unordered, data), or None after the last message."""
        if self.left == 0:
            return None
        n, options = self.number, self.options
        kind, sizes = options.sizes
        if kind == "range":
            size = sizes[0] + splitmix64(options.seed, n) % (sizes[1] - sizes[0] + 1)
        else:
            size = sizes[n % len(sizes)]
        size = min(size, self.left)
        stream, index = n % self.streams, n // self.streams
        unordered = options.unordered > 0 and n % options.unordered == options.unordered - 1
        self.number, self.left = n + 1, self.left - size
        return stream, index, unordered, content(stream, index, size)


class _Stream:
    """Messages received on one stream."""

    def __init__(self):
        self.next = 0  # all lower indexes were received
        self.ahead = set()  # received indexes at or above `next`
        self.last_ordered = -1

    def see(self, index):
        if index < self.next or index in self.ahead:
            return False
        self.ahead.add(index)
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next += 1
        return True


class Check:
    """Checks received messages: content, no duplicates, order per stream."""

    MOST_LINES = 20

    def __init__(self):
        self.streams, self.errors = {}, 0

    def fail(self, message):
        self.errors += 1
        if self.errors <= self.MOST_LINES:
            emit("error", message=message)

    def message(self, stream, ppid, unordered, data):
        """Checks one complete message (a memoryview)."""
        length, where = len(data), f"stream {stream}, PPID {ppid}, {len(data)} bytes"
        start = (ppid + 29 * stream) & 255
        if length >= 8:
            index, claimed = struct.unpack_from(">II", data)
            if index != ppid:
                self.fail(f"{where}: the index in the header is {index}")
            if claimed != length:
                self.fail(f"{where}: the length in the header is {claimed} bytes")
            good = data[8:] == _RAMP_VIEW[start + 8 : start + length]
        else:
            good = data == _RAMP_VIEW[start : start + length]
        if not good:
            self.fail(f"{where}: wrong content")
        seen = self.streams.setdefault(stream, _Stream())
        if not seen.see(ppid):
            self.fail(f"{where}: delivered twice")
        if not unordered:
            if ppid <= seen.last_ordered:
                self.fail(f"{where}: out of order after index {seen.last_ordered}")
            seen.last_ordered = max(seen.last_ordered, ppid)

    def complete(self):
        """Checks after a SHUTDOWN that no index is missing."""
        for number, stream in sorted(self.streams.items()):
            if stream.ahead:
                self.fail(f"stream {number}: index {stream.next} never arrived, {max(stream.ahead)} did")
