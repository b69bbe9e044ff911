"""A SOCKS5 proxy is asked for a connection: what to send it and what its answers mean, without a socket.

Floor: 2. Owns: RFC 1928 and the login of RFC 1929, for connecting to a host by name; never: waiting.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from plait.models.failures import ProxyRefused

_VERSION: Final = 5
_NO_LOGIN: Final = 0
_LOGIN: Final = 2
_LOGIN_VERSION: Final = 1
_CONNECT: Final = 1
_TEXT_BYTES_MAX: Final = 255
_LENGTHS: Final[Mapping[int, int]] = {1: 4, 4: 16}
"""Kind of address → its bytes; a name (3) begins with its length."""
_NAME: Final = 3
_REFUSALS: Final[Mapping[int, str]] = {
    1: "it failed",
    2: "its rules do not allow it",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the host refused the connection",
    6: "it took too long",
    7: "it does not know the command",
    8: "it does not know the kind of address",
}


class SocksHandshake:
    """What is said until the proxy has connected: send `outgoing`, feed what comes, until `is_over`.

    The proxy looks the host's name up. Each read may be as long as `wanted` and no longer: what follows the last
    answer belongs to the host.
    """

    def __init__(self, host: str, port: int, login: tuple[str, str] | None = None) -> None:
        """Begin.

        Raises:
            ProxyRefused: the name or the login is too long to be said.
        """
        self.is_over = False
        self._target = _address(host) + port.to_bytes(2, "big")
        self._login = None if login is None else b"".join(map(_text, login))
        methods = bytes([_NO_LOGIN] if login is None else [_NO_LOGIN, _LOGIN])
        self._outgoing = bytes([_VERSION, len(methods)]) + methods
        self._awaited = self._method
        self._need = 2
        self._data = b""

    @property
    def outgoing(self) -> bytes:
        """What to send now; it is given once."""
        data, self._outgoing = self._outgoing, b""
        return data

    @property
    def wanted(self) -> int:
        """How many bytes may be read next."""
        return self._need - len(self._data)

    def feed(self, data: bytes) -> None:
        """Take bytes of the proxy's.

        Raises:
            ProxyRefused: it will not connect, or is no SOCKS5 proxy.
        """
        self._data += data
        while not self.is_over and len(self._data) >= self._need:
            self._awaited()

    def _method(self) -> None:
        version, method = self._take(2)
        if version != _VERSION:
            raise ProxyRefused("it is no SOCKS5 proxy")
        if method == _NO_LOGIN:
            self._connect()
        elif method == _LOGIN and self._login is not None:
            self._outgoing = bytes([_LOGIN_VERSION]) + self._login
            self._awaited, self._need = self._judged, 2
        else:
            raise ProxyRefused("it wants another login" if self._login else "it wants a login")

    def _judged(self) -> None:
        if self._take(2)[1]:
            raise ProxyRefused("it does not take this login")
        self._connect()

    def _connect(self) -> None:
        self._outgoing = bytes([_VERSION, _CONNECT, 0]) + self._target
        self._awaited, self._need = self._connected, 5

    def _connected(self) -> None:
        """Read the answer up to the first byte of the address that the proxy connected from."""
        version, code, _, kind, first = self._data[:5]
        if version != _VERSION:
            raise ProxyRefused("its answer is none")
        if code:
            raise ProxyRefused(_REFUSALS.get(code, f"code {code}"))
        length = 1 + first if kind == _NAME else _LENGTHS.get(kind)
        if length is None:
            raise ProxyRefused("its answer is none")
        self._need = 4 + length + 2
        if len(self._data) >= self._need:
            self.is_over = True

    def _take(self, count: int) -> bytes:
        taken, self._data = self._data[:count], self._data[count:]
        return taken


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bytes([_NAME]) + _text(host)
    return bytes([1 if address.version == 4 else 4]) + address.packed


def _text(text: str) -> bytes:
    data = text.encode()
    if not 0 < len(data) <= _TEXT_BYTES_MAX:
        raise ProxyRefused("the name of the host or the login is empty or too long for it")
    return bytes([len(data)]) + data
