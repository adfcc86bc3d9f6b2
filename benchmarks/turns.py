"""Processes that take turns: each peer of a comparison in one of its own, with stock settings."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any


@contextmanager
def taking_turns(
    work: Callable[..., None], arguments: Mapping[str, tuple[Any, ...]]
) -> Iterator[dict[str, Connection]]:
    """Start a process for each name, and give the connection to each.

    `work` gets the arguments of its name and the other end of the connection. It answers until None arrives, which is
    sent to all at the end; then they are waited for. After an error they are ended.
    """
    context = multiprocessing.get_context("spawn")
    ours: dict[str, Connection] = {}
    processes = []
    try:
        for name, each in arguments.items():
            ours[name], theirs = context.Pipe()
            processes.append(context.Process(target=work, args=(*each, theirs)))
            processes[-1].start()
            theirs.close()  # so that a process that failed ends the wait for it
        yield ours
        for connection in ours.values():
            connection.send(None)
    except BaseException:
        for process in processes:
            process.terminate()
        raise
    finally:
        for process in processes:
            process.join()
