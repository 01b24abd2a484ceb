"""A host list as hosts, and what a host name and an address must be; the machine layout asks for the same."""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

from paictl.config.models import per_document
from paictl.config.reading.csvtable import Field, Row
from paictl.config.reading.document import Document
from paictl.frozen import frozen

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

MAX_LABEL = 63
MAX_NAME = 253
NAME_FORM = f"use lower-case letters, digits and '-', at most {MAX_LABEL} characters between dots"
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_HEADING = re.compile(
    r"(host|node|machine|server|master|worker)?[ _-]?(names?|hosts?|ips?|ip[ _-]?addr(ess)?(es)?|addr(ess)?(es)?)"
    r"|host|node|machine",
    re.IGNORECASE,
)


@frozen
class HostRow:
    """A row that names a host; further fields of the row are ignored, as the old tools do."""

    row: Row
    name: Field
    address: Field

    @property
    def key(self) -> str:
        """The name for comparing: DNS does not tell upper from lower case."""
        return self.name.stripped.lower()


@frozen
class HostList:
    """The hosts of a list in its order.

    `meant` are the rows that are meant as hosts, however badly written; `swapped` those that give the address first,
    which count as hosts too.
    """

    hosts: tuple[HostRow, ...]
    meant: tuple[Row, ...]
    header: Row | None
    swapped: tuple[Row, ...]


@per_document
def host_list(document: Document) -> HostList:
    """The hosts of a host list; rows without an address are left out (CSV201 reports them)."""
    rows = [row for row in document.rows if not row.blank and not row.comment]
    header = rows[0] if rows and _is_heading(rows[0]) else None
    meant = tuple(row for row in rows if row is not header)
    hosts: list[HostRow] = []
    swapped: list[Row] = []
    for row in meant:
        if len(row.fields) < 2:
            continue
        name, address = row.fields[:2]
        if address_of(name.stripped) and name_fault(address.stripped) is None:
            swapped.append(row)
            name, address = address, name
        hosts.append(HostRow(row, name, address))
    return HostList(tuple(hosts), meant, header, tuple(swapped))


def _is_heading(row: Row) -> bool:
    return all(_HEADING.fullmatch(field.stripped) for field in row.fields)


def name_fault(name: str) -> str | None:
    """What keeps a text from being a host name (RFC 1123, lower case), or None; an address is no name."""
    if not name:
        return "is empty"
    if address_of(name):
        return "is an address"
    if len(name) > MAX_NAME:
        return f"is longer than {MAX_NAME} characters"
    for label in name.split("."):
        if not label:
            return "has an empty part between its dots"
        if len(label) > MAX_LABEL:
            return f"has a part of {len(label)} characters, {MAX_LABEL} are allowed"
        if not _LABEL.fullmatch(label):
            return _label_fault(label)
    return None


def _label_fault(label: str) -> str:
    odd = next((c for c in label if not re.match(r"[A-Za-z0-9-]", c)), None)
    if odd is not None:
        return f"holds {odd!r}" if odd.isprintable() else f"holds the character U+{ord(odd):04X}"
    return "holds upper-case letters" if label != label.lower() else "begins or ends with '-'"


def abridged(text: str) -> str:
    """A text in quotes for a message, cut where it is long."""
    return repr(text if len(text) <= 70 else f"{text[:67]}...")


def address_of(text: str) -> Address | None:
    """The IP address that a text is, or None."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def address_fault(address: Address) -> str | None:
    """Why no machine of a cluster can have an address, or None."""
    kinds = (
        ("the unspecified address", address.is_unspecified),
        ("a loopback address", address.is_loopback),
        ("the broadcast address", address == ipaddress.IPv4Address("255.255.255.255")),
        ("a multicast address", address.is_multicast),
        ("a link-local address", address.is_link_local),
        ("a reserved address", address.version == 4 and address.is_reserved),
    )
    return next((words for words, applies in kinds if applies), None)


def malformed_address_hint(text: str) -> str:
    """The likeliest reason why a text is no address, as the next thing to do."""
    parts = text.split(".")
    if "/" in text and address_of(text.partition("/")[0]):
        return f"leave the prefix length out: {text.partition('/')[0]}"
    if ":" in text and address_of(text.partition(":")[0]):
        return f"leave the port out: {text.partition(':')[0]}"
    if len(parts) == 4 and all(part.isascii() and part.isdigit() for part in parts):
        large = [part for part in parts if int(part[:9]) > 255]
        return f"{large[0]} is more than 255" if large else "write the numbers without leading zeros"
    return "write an IPv4 address such as 10.0.0.1"
