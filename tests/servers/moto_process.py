"""The process of the moto server: prints its port, and ends when its standard input does."""

from __future__ import annotations

import contextlib
import sys

from moto.server import ThreadedMotoServer

if __name__ == "__main__":
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    with contextlib.redirect_stdout(sys.stderr):
        server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    server.stop()
