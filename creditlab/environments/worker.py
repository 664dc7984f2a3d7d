"""The far end of a worker pool: a process that answers requests one by one until its pool is gone."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Handler = Callable[[Any], Any]
"""Does one request; both sides are plain JSON data. An exception goes back to the pool as a text."""


def serve(make: Callable[[], Handler]) -> None:
    """Makes the handler and answers requests with it; returns when the pool closes the connection or dies.

    A module that a pool starts calls it; its arguments are the number of the inherited socket and the pool's folder.
    """
    connection, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    handle = make()
    with suppress(OSError), connection, connection.makefile("rb") as requests:  # the pool may be gone at any moment
        send(connection, {"ready": True})
        for line in requests:
            send(connection, _answer(handle, line))
    with suppress(OSError):  # a pool that was killed could not remove it
        folder.rmdir()


def send(connection: socket.socket, message: Any) -> None:
    """Sends one message: JSON on one line."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def _answer(handle: Handler, line: bytes) -> dict[str, Any]:
    try:
        return {"result": handle(json.loads(line))}
    except Exception as error:  # whatever goes wrong concerns the occupant alone
        return {"error": f"{type(error).__name__}: {error}"}
