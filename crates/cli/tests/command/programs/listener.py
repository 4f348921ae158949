"""Servers and a client of SCTP: listener.py server|idle|several|many|client PORT.

A server sets options, listens, and echoes the messages of each association in a thread; another one waits
in accept, but for an idle server. It prints a line of JSON when it listens, for each association that it accepts, with the options that this has
inherited, and for the error of each that fails. A line on standard input is a command: "names" prints the
local address of the listening socket, "delay" switches SCTP_NODELAY off, and "close" closes it. Server "several" listens
at 40 ports from PORT on. Server "many" echoes the
messages of a one-to-many socket, and prints the identifiers of its associations for each. The client sends a message, prints a line when it is echoed, and waits for the end of its input.
"""

import errno
import json
import socket
import struct
import sys
import threading

SCTP = 132
INITMSG, NODELAY, ASSOC_ID_LIST = 2, 3, 29
STREAMS = struct.pack("=HHHH", 3, 7, 0, 0)


def show(**line):
    print(json.dumps(line), flush=True)


def opened():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)


def serve(association, number):
    try:
        while message := association.recv(4096):
            association.send(message)
    except OSError as error:
        show(failed=number, error=errno.errorcode[error.errno])
    association.close()


def accept(listener):
    number = 0
    while True:
        try:
            association, _ = listener.accept()
        except OSError as error:
            show(accept=errno.errorcode[error.errno])
            return
        number += 1
        streams = association.getsockopt(SCTP, INITMSG, 8)
        show(accepted=number, nodelay=association.getsockopt(SCTP, NODELAY), streams=struct.unpack("=HHHH", streams)[:2])
        threading.Thread(target=serve, args=(association, number), daemon=True).start()


def server(port, accepts=True):
    listener = opened()
    listener.setsockopt(SCTP, NODELAY, 1)
    listener.setsockopt(SCTP, INITMSG, STREAMS)
    listener.bind(("127.0.0.1", port))
    listener.listen(5)
    show(listening=port)
    if accepts:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
    for command in map(str.strip, sys.stdin):
        if command == "names":
            show(address=listener.getsockname())
        elif command == "delay":
            listener.setsockopt(SCTP, NODELAY, 0)
            show(nodelay=listener.getsockopt(SCTP, NODELAY))
        elif command == "close":
            listener.close()
            show(closed=port)


def several(port):
    for number in range(port, port + 40):
        listener = opened()
        listener.bind(("127.0.0.1", number))
        listener.listen(5)
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
    show(listening=port)
    sys.stdin.read()


def many(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    listener.bind(("127.0.0.1", port))
    listener.listen(5)
    show(listening=port)
    while True:
        message, peer = listener.recvfrom(4096)
        count, *identifiers = struct.unpack("=I3i", listener.getsockopt(SCTP, ASSOC_ID_LIST, 16).ljust(16, b"\0"))
        show(identifiers=identifiers[:count])
        listener.sendto(message, peer)


def client(port):
    association = opened()
    association.connect(("127.0.0.1", port))
    association.send(b"message")
    show(echoed=association.recv(4096).decode())
    sys.stdin.read()


def idle(port):
    server(port, accepts=False)


{"server": server, "idle": idle, "several": several, "many": many, "client": client}[sys.argv[1]](int(sys.argv[2]))
