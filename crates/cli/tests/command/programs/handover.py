"""Associations with traffic in both directions: handover.py server PORT COUNT, handover.py client PORT COUNT.

Each end of COUNT associations sends numbered messages, and checks the numbers of those that it receives. Whenever each
association has received another BATCH messages, a line with their least number is printed. A line on standard
input ends the client's messages, and the last one of an association has the number END; the other side
sends its own last message then. Any error, lost, repeated or reordered message ends the program with code 1.
"""

import json
import select
import socket
import struct
import sys

SCTP = 132
BATCH = 25
WINDOW = 40
END = 0xffffffff


class Association:
    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.sent = 0
        self.received = 0
        self.has_ended = False
        self.peer_has_ended = False

    def send(self, ends):
        """Sends a few messages; each end is at most WINDOW messages ahead of the other."""
        for _ in range(4):
            if self.has_ended or not ends and self.sent >= self.received + WINDOW:
                return
            number = END if ends else self.sent
            size = (4, 100, 1200, 5000)[self.sent % 4]
            try:
                self.descriptor.send(struct.pack(">I", number) + bytes(size - 4), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if ends:
                self.has_ended = True
            else:
                self.sent += 1

    def receive(self):
        message = self.descriptor.recv(8192)
        number = struct.unpack(">I", message[:4])[0]
        if number == END:
            self.peer_has_ended = True
            return
        if number != self.received or len(message) != (4, 100, 1200, 5000)[number % 4]:
            sys.exit(f"message {number} of {len(message)} bytes, not {self.received}")
        self.received += 1


def opened(role, port, count):
    if role == "client":
        for _ in range(count):
            descriptor = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
            descriptor.connect(("127.0.0.1", port))
            yield Association(descriptor)
        return
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
    listener.bind(("127.0.0.1", port))
    listener.listen(count)
    print(json.dumps({"listening": port}), flush=True)
    for _ in range(count):
        yield Association(listener.accept()[0])


def main():
    role, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    associations = {a.descriptor.fileno(): a for a in opened(role, port, count)}
    ends = False
    printed = 0
    while not all(a.has_ended and a.peer_has_ended for a in associations.values()):
        for association in associations.values():
            association.send(ends or role == "server" and association.peer_has_ended)
        read = [fd for fd, a in associations.items() if not a.peer_has_ended]
        inputs = [sys.stdin] if role == "client" and not ends else []
        readable, _, _ = select.select(read + inputs, [], [], 0.02)
        for found in readable:
            if found is sys.stdin:
                ends = True
            else:
                associations[found].receive()
        least = min(a.received for a in associations.values())
        if least >= printed + BATCH and not ends:
            printed = least
            print(json.dumps({"received": least}), flush=True)
    totals = {"sent": [a.sent for a in associations.values()], "received": [a.received for a in associations.values()]}
    print(json.dumps(totals), flush=True)
    # The peer's last message has arrived, so that nothing is unread.
    for association in associations.values():
        association.descriptor.close()


main()
