"""An echo server as programs of Python have it: a loop that accepts, and a thread for each association."""

import socket
import sys
import threading


def serve(accepted):
    with accepted:
        try:
            while message := accepted.recv(4096):
                accepted.send(message)
        except OSError as error:
            print("association ended:", error.strerror, flush=True)


listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(16)
print("listening", flush=True)
try:
    while True:
        accepted, _ = listener.accept()
        threading.Thread(target=serve, args=[accepted], daemon=True).start()
except OSError as error:
    print("accept:", error.strerror, flush=True)
    sys.exit(1)
