"""Asking the daemon over its socket, with the standard library alone and as little of it as possible.

The hook client and the command line live by how soon this is imported, so there is no `http.client`: HTTP/1.0 by
hand, one request a connection, and the answer ends where the connection does.
"""

from __future__ import annotations

import os
import socket
import time

MOST_BYTES = 1 << 26
_MOST_HEAD = 1 << 16


class Unanswered(Exception):
    """Nobody answered in time, or not with HTTP. Not a VadeError: whoever asks goes on without."""


def ask(
    path: str,
    method: str,
    target: str,
    body: bytes | None = None,
    *,
    timeout_s: float,
    connect_s: float = 0.05,
    most: int = MOST_BYTES,
) -> tuple[int, bytes]:
    """Send one request to the socket at `path`: the status and the body of the answer.

    `timeout_s` bounds the whole exchange, `most` the bytes of the answer, head and all. Raises Unanswered.
    """
    deadline = time.monotonic() + timeout_s
    try:
        if os.lstat(os.path.dirname(path)).st_uid != os.getuid():
            raise Unanswered("the folder of the socket belongs to somebody else")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(min(connect_s, timeout_s))
            channel.connect(path)
            channel.settimeout(timeout_s)
            channel.sendall(_request(method, target, body))
            return _answer(channel, deadline, most)
    except (OSError, ValueError) as exc:
        raise Unanswered(str(exc) or type(exc).__name__) from exc


def _request(method: str, target: str, body: bytes | None) -> bytes:
    head = [f"{method} {target} HTTP/1.0", "Host: localhost"]
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + (body or b"")


def _answer(channel: socket.socket, deadline: float, most: int) -> tuple[int, bytes]:
    pieces: list[bytes] = []
    received = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unanswered("no whole answer in time")
        channel.settimeout(left)
        piece = channel.recv(1 << 16)
        if not piece:
            break
        received += len(piece)
        if received > most:
            raise Unanswered(f"the answer has more than {most:,} bytes")
        pieces.append(piece)
    head, mark, body = b"".join(pieces).partition(b"\r\n\r\n")
    words = head[:_MOST_HEAD].split(None, 2)
    if not mark or len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise Unanswered("the answer is no HTTP")
    length = _declared_length(head)
    if length is not None and len(body) < length:
        raise Unanswered("the answer broke off")
    return int(words[1]), body


def _declared_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return None
