"""Which hosts a fence lets connections out to.

Floor: 2. Owns: the language of the list and its judgement, and which addresses are never reached; never: a socket.

`example.com` is that host, `*.example.com` or `.example.com` every host beneath it; `example.com:8443` is another port
than the usual two. An address is no name, and a name that leads to an address of this machine or its network leads
nowhere.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PORTS: Final = (80, 443)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_LAST_LABEL: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_NAME_CHARS_MAX: Final = 253
_NOWHERE: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "3fff::/20", "192.88.99.0/24")))
"""What is translated to other addresses, is only for books, or led to relays that are gone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list."""

    name: str
    is_suffix: bool
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Hosts that can be reached."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, hosts: Iterable[object]) -> Allowlist:
        """Read a list; raise `ValueError` for what is no name of a host."""
        return cls(tuple(_entry(host) for host in hosts))

    def allows(self, host: str, port: int) -> bool:
        """Say whether a connection to a host may be tried: by its exact name, on the border of a label."""
        name = host_name(host)
        return name is not None and any(
            port in entry.ports and (name.endswith(f".{entry.name}") if entry.is_suffix else name == entry.name)
            for entry in self.entries
        )


def host_name(text: str) -> str | None:
    """Return a host's name as it is compared, None for what is none: an address in any spelling, an odd character."""
    name = text.lower().removesuffix(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    labels = name.split(".")
    if len(name) > _NAME_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    # A last label that begins with a digit is how an address is told from a name: 127.1, 0x7f.1, 2130706433.
    return name if _LAST_LABEL.fullmatch(labels[-1]) else None


def is_public(address: str) -> bool:
    """Say whether an address belongs to the internet, and not to this machine, its network or its cloud's."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if inner is not None:
            found = inner
        elif found.is_site_local:  # old, and what some virtual machines call their host
            return False
    if any(found in network for network in _NOWHERE):
        return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def _entry(host: object) -> Entry:
    if not isinstance(host, str):
        raise ValueError(f"the network names {host!r}, which is no host")
    name, colon, port = host.partition(":")
    is_suffix = name.startswith((".", "*."))
    known = host_name(name.removeprefix("*").removeprefix(".") if is_suffix else name)
    if known is None or "." not in known:
        raise ValueError(f"the network names {host!r}; give names such as 'example.org' or '*.example.org'")
    if not colon:
        return Entry(known, is_suffix, PORTS)
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"the network names {host!r}, whose port is none")
    return Entry(known, is_suffix, (int(port),))
