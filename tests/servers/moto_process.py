"""The process of the moto server: prints its port, and ends when its standard input does.

It does one request at a time, for moto's transactions are not safe against one another: races are for DynamoDB Local.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    """Writes no line for each request."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - its name in the base
        pass


def main() -> None:
    """Serve until the standard input ends."""
    answer, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with turn:
            return list(answer(environ, start_response))

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
