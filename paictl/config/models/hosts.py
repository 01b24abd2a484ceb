"""A host list as hosts, and what a host name and an address must be; the machine layout asks for the same."""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

from paictl.config.models import per_document
from paictl.config.reading.csvtable import Field, Row
from paictl.config.reading.document import Document
from paictl.frozen import frozen
from paictl.i18n import text

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

MAX_LABEL = 63
MAX_NAME = 253
NAME_FORM = text("use lower-case letters, digits and '-', at most {most} characters between dots", most=MAX_LABEL)
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
        return text("is empty")
    if address_of(name):
        return text("is an address")
    if len(name) > MAX_NAME:
        return text("is longer than {most} characters", most=MAX_NAME)
    for label in name.split("."):
        if not label:
            return text("has an empty part between its dots")
        if len(label) > MAX_LABEL:
            return text("has a part of {count} characters, {most} are allowed", count=len(label), most=MAX_LABEL)
        if not _LABEL.fullmatch(label):
            return _label_fault(label)
    return None


def _label_fault(label: str) -> str:
    odd = next((c for c in label if not re.match(r"[A-Za-z0-9-]", c)), None)
    if odd is not None:
        return (
            text("holds {character!r}", character=odd)
            if odd.isprintable()
            else text("holds the character U+{code:04X}", code=ord(odd))
        )
    return text("holds upper-case letters") if label != label.lower() else text("begins or ends with '-'")


def abridged(words: str) -> str:
    """A text in quotes for a message, cut where it is long."""
    return repr(words if len(words) <= 70 else f"{words[:67]}...")


def address_of(written: str) -> Address | None:
    """The IP address that a text is, or None."""
    try:
        return ipaddress.ip_address(written)
    except ValueError:
        return None


def address_fault(address: Address) -> str | None:
    """Why no machine of a cluster can have an address, or None."""
    kinds = (
        (text("the unspecified address"), address.is_unspecified),
        (text("a loopback address"), address.is_loopback),
        (text("the broadcast address"), address == ipaddress.IPv4Address("255.255.255.255")),
        (text("a multicast address"), address.is_multicast),
        (text("a link-local address"), address.is_link_local),
        (text("a reserved address"), address.version == 4 and address.is_reserved),
    )
    return next((words for words, applies in kinds if applies), None)


def malformed_address_hint(written: str) -> str:
    """The likeliest reason why a text is no address, as the next thing to do."""
    parts = written.split(".")
    if "/" in written and address_of(written.partition("/")[0]):
        return text("leave the prefix length out: {address}", address=written.partition("/")[0])
    if ":" in written and address_of(written.partition(":")[0]):
        return text("leave the port out: {address}", address=written.partition(":")[0])
    if len(parts) == 4 and all(part.isascii() and part.isdigit() for part in parts):
        large = [part for part in parts if int(part[:9]) > 255]
        return (
            text("{number} is more than 255", number=large[0]) if large else "write the numbers without leading zeros"
        )
    return "write an IPv4 address such as 10.0.0.1"
