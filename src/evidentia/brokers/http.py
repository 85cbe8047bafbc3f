"""Server-sent events and lines of JSON over HTTP.

Events with ids are exact: a new connection asks for those after the last one (`Last-Event-ID`;
WHATWG HTML, section 9.2). So are lines of a resource that can be read from a byte on (`Range`; RFC
9110, section 14), or has a length, so that what was read can be left out. A live response with
neither begins wherever the server is: what it sent while the connection was lost is missing.
"""

import hashlib
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import httpx

from evidentia.brokers.addresses import Address
from evidentia.brokers.message import Message, Position
from evidentia.brokers.reconnecting import LOGGER, reconnecting
from evidentia.data.arrivals import arriving
from evidentia.errors import ConfigurationError, DataError

SECONDS = 10.0  # to connect, and for the head of an answer to a request
LONGEST_LINE = 1 << 26  # bytes
ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)  # a dead connection is noticed after a minute
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]
PASSING = 204, 408, 425, 429  # statuses below 500 after which another attempt is worth it
NOTHING_NEW = 416


class UnavailableError(Exception):
    """The server cannot answer now."""


class HttpStream:
    """Server-sent events, or lines of JSON, from `http(s)://…`, by the type of the answer.

    Positions are {"id": …, "after": …}, the last id and the number of events after it (without any
    ids, also the digest of the last event), or {"bytes": …}. Name and password before an @ are
    sent as basic authentication, `:token@` as a bearer token.

    Args:
        address: its address.

    Raises:
        ConfigurationError: an option; there are none.
    """

    def __init__(self, address: Address):
        address.checked_options()
        self.name = address.name
        self._url = f"{address.scheme}://{address.hosts}/{address.path}"
        self._auth = authorization(address)
        self._position: Position = {}
        self._socket: Any = None

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield the events or lines after a position; see `Subscription`.

        Raises:
            ConfigurationError: the server refuses, or answers with something else.
            DataError: the resource is shorter than what was read of it.
        """
        self._position = dict(position or {})
        yield from reconnecting(self.name, self._connected, (httpx.TransportError, UnavailableError))

    def acknowledge(self, position: Position) -> None:
        """Do nothing: HTTP has no acknowledgement."""

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for bytes
            self._socket = None

    def _connected(self) -> Iterator[Message | None]:
        with closing(arriving(self._blocks(dict(self._position)))) as blocks:
            try:
                for block in blocks:
                    for message in block or []:
                        self._position = message.position
                        yield message
                    if block is None:
                        yield None
            finally:
                self.close()

    def _blocks(self, position: Position) -> Iterator[list[Message]]:
        """What each part of an answer holds, read on a thread."""
        # Not by httpx.Client: it logs URLs, with any token in their queries.
        with httpx.HTTPTransport(socket_options=ALIVE) as transport:
            answer = transport.handle_request(self._request(position))
            self._socket = answer.extensions["network_stream"].get_extra_info("socket")
            with closing(answer):
                if answer.status_code == NOTHING_NEW and "bytes" in position:
                    return
                self._check(answer)
                parts = answer.iter_raw()
                if "text/event-stream" in answer.headers.get("content-type", ""):
                    yield from _events(_lines(parts, self.name), position)
                else:
                    first = self._first_byte(answer, position.get("bytes", 0))
                    yield from _json_lines(_lines(parts, self.name), first)

    def _request(self, position: Position) -> httpx.Request:
        headers = {
            "Accept": "text/event-stream, application/x-ndjson, */*;q=0.5",
            "Accept-Encoding": "identity",
            "Cache-Control": "no-store",
            **self._auth,
        }
        if position.get("id"):
            headers["Last-Event-ID"] = position["id"]
        if position.get("bytes"):
            headers["Range"] = f"bytes={position['bytes']}-"
        timeout = httpx.Timeout(SECONDS, read=None).as_dict()
        return httpx.Request("GET", self._url, headers=headers, extensions={"timeout": timeout})

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code not in (200, 206):
            raise failure(self.name, answer.status_code, answer.reason_phrase)
        if "text/html" in (kind := answer.headers.get("content-type", "")):
            raise ConfigurationError(f"{self.name}: the answer must be events or lines of JSON; got {kind}.")

    def _first_byte(self, answer: httpx.Response, read: int) -> int:
        """The number of the first byte of an answer, or of those to leave out, below zero."""
        if answer.status_code == 206 or not read:
            return read
        length = answer.headers.get("content-length")
        if length is None:
            LOGGER.warning(
                "%s: the server cannot go on where it was; rows in between are missing.", self.name
            )
            return read
        if int(length) < read:
            raise DataError(
                f"{self.name} has {int(length):,} bytes, but {read:,} were read: it is not the same any more. "
                "Begin anew with another folder for --checkpoint."
            )
        return -read


def failure(name: str, status: int, phrase: str = "") -> Exception:
    """What a status means that is no success: `UnavailableError`, or a refusal."""
    said = f"{status} {phrase}".rstrip()
    if status >= 500 or status in PASSING:
        return UnavailableError(f"status {said}")
    return ConfigurationError(f"{name}: the server answers {said}.")


def authorization(address: Address) -> dict[str, str]:
    """The header that carries the credentials of an address, if it has any."""
    if address.username:
        request = httpx.Request("GET", "http://host")
        flow = httpx.BasicAuth(address.username, address.password).auth_flow(request)
        return {"Authorization": next(flow).headers["Authorization"]}
    return {"Authorization": f"Bearer {address.password}"} if address.password else {}


def _lines(parts: Iterator[bytes], name: str) -> Iterator[list[bytes]]:
    """The whole lines of each part, with their ends."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise DataError(f"{name} has a line of more than {LONGEST_LINE:,} bytes.")
        yield [line + b"\n" for line in lines]


def _json_lines(parts: Iterator[list[bytes]], first: int) -> Iterator[list[Message]]:
    """Messages of lines that are not empty; those of the first -`first` bytes are left out."""
    byte, read = max(first, 0), max(-first, 0)
    for lines in parts:
        block = []
        for line in lines:
            byte += len(line)
            if byte > read and line.strip():
                block.append(Message(line.strip(), {"bytes": byte}))
        yield block


def _events(parts: Iterator[list[bytes]], position: Position) -> Iterator[list[Message]]:
    """The events of a stream; events without id that were read before are left out.

    After the last id the server sends all later events again, also those without an id.
    """
    last, read = str(position.get("id", "")), int(position.get("after", 0))
    after, is_again = (0, True) if last else (read, False)
    fields: dict[str, list[bytes]] = {}
    for lines in parts:
        block = []
        for line in lines:
            name, _, value = line.rstrip(b"\r\n").partition(b":")
            if name:
                fields.setdefault(name.decode(errors="replace"), []).append(value.removeprefix(b" "))
                continue
            if not line.strip():
                if "id" in fields:
                    last, after, is_again = fields["id"][-1].decode(errors="replace"), 0, False
                elif "data" in fields:
                    after += 1
                if "data" in fields and not (is_again and after <= read):
                    payload = b"\n".join(fields["data"])
                    kind = fields["event"][-1].decode(errors="replace") if "event" in fields else None
                    block.append(Message(payload, _after_event(last, after, payload), kind))
                fields = {}
        yield block


def _after_event(last: str, after: int, payload: bytes) -> Position:
    position: Position = {"id": last, "after": after}
    return position if last else position | {"digest": hashlib.sha256(payload).hexdigest()[:32]}
