#!/usr/bin/python3
"""Servers for packet scripts on the kernel's SCTP: one reads all messages, one none. Usage: kernel.py PORT UNREAD_PORT"""

import os
import select
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../kernel"))

from options import emit  # noqa: E402

# Associations of a listening socket that wait to be accepted.
BACKLOG = 128
PIECE = 1 << 16


def listener(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    sock.bind(("0.0.0.0", port))
    sock.listen(BACKLOG)
    return sock


def main():
    port, unread_port = map(int, sys.argv[1:])
    listeners = {sock.fileno(): (sock, reads) for sock, reads in ((listener(port), True), (listener(unread_port), False))}
    poll = select.poll()
    for number in listeners:
        poll.register(number, select.POLLIN)
    # Accepted sockets; those that are not read stay open to the end.
    read, unread = {}, []
    emit("ready", stack="linux", port=port)
    while True:
        for number, _ in poll.poll():
            if number in listeners:
                sock, reads = listeners[number]
                accepted, _ = sock.accept()
                if reads:
                    read[accepted.fileno()] = accepted
                    poll.register(accepted, select.POLLIN)
                else:
                    unread.append(accepted)
                continue
            try:
                ended = not read[number].recv(PIECE)
            except OSError:
                ended = True
            if ended:
                poll.unregister(number)
                read.pop(number).close()


if __name__ == "__main__":
    main()
