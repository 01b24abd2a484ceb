"""Kinds of machine as one describes them on the command line: `V100@gpu-[01-16]=gpu:8,cpu:96,memory:900Gi`.

`NAME[@HOSTS]=RESOURCES`. HOSTS are host names separated by commas, in which `*` and `?` stand for any characters and
`[01-16]` for the numbers of a range, with leading zeros as written. A SKU without HOSTS has all workers that no other
one names, so that a cluster of equal machines needs no HOSTS at all. RESOURCES are `gpu` (devices, none by default),
`cpu` (cores), `memory` (with its unit), and for devices `type` (by default nvidia.com/gpu) and `model` (by default
NAME).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cached_property

from paictl import i18n
from paictl.errors import PaictlError
from paictl.frozen import frozen_caching
from paictl.suggestions import nearest
from paictl.units import Quantity, likely_quantity, parse_quantity

FORM = "NAME[@HOSTS]=gpu:8,cpu:96,memory:900Gi"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,50}[A-Za-z0-9])?")
_TYPE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")
_KEYS = ("gpu", "cpu", "memory", "type", "model")
_RANGE = re.compile(r"\[(\d{1,6})-(\d{1,6})\]")
_MOST = 20_000
"""Longest range of numbers in a host pattern."""
_RESERVED_SHARE = Decimal("0.01")
_RESERVED_CPUS = Decimal("0.5")
_RESERVED_MIB = Decimal(1024)
"""What stays free on every node: one per cent, but not more than this."""


@frozen_caching
class MachineSku:
    """What every machine of a kind has in all; `hosts` are the patterns of its machines, empty for "the rest"."""

    name: str
    devices: int
    cpus: int
    memory: Quantity
    device_type: str
    model: str
    hosts: tuple[str, ...] = ()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(_regex(pattern) for pattern in self.hosts))

    def names(self, host: str) -> bool:
        """Whether one of the patterns means a host."""
        return bool(self.hosts) and self._pattern.fullmatch(host) is not None


def parse_sku(text: str) -> MachineSku:
    """The SKU that an option ``--sku`` describes; raises `PaictlError` saying what is wrong with it."""
    head, equals, tail = text.partition("=")
    name, at, hosts = head.partition("@")
    patterns = tuple(pattern.strip().lower() for pattern in hosts.split(",") if pattern.strip())
    if not equals:
        raise _error(text, "has no '='", i18n.text("write {form}", form=FORM))
    if not _NAME.fullmatch(name):
        raise _error(
            text, i18n.text("cannot be called {name!r}", name=name), "use letters, digits, '-' and '_', at most 52"
        )
    if at and not patterns:
        raise _error(text, "names no hosts after '@'", i18n.text("write {form}, or leave the '@' out", form=FORM))
    for pattern in patterns:
        if not re.fullmatch(r"[a-z0-9.*?-]+", _RANGE.sub("", pattern)) or not _regex(pattern):
            raise _error(
                text,
                i18n.text("has the host pattern {pattern!r}", pattern=pattern),
                "use names, *, ? and ranges such as [01-16]",
            )
    given = _resources(text, tail)
    devices = _number(text, "gpu", given.get("gpu", "0"), least=0)
    cpus = _number(text, "cpu", given["cpu"], least=1)
    memory = _memory(text, given["memory"])
    kind, model = given.get("type", "nvidia.com/gpu"), given.get("model", name)
    if not _TYPE.fullmatch(kind):
        raise _error(
            text, i18n.text("has the device type {kind!r}", kind=kind), "write a resource name such as nvidia.com/gpu"
        )
    if not _MODEL.fullmatch(model):
        raise _error(
            text, i18n.text("has the model {model!r}", model=model), "use letters, digits, spaces, '.', '-' and '_'"
        )
    return MachineSku(name, devices, cpus, memory, kind, model, patterns)


def _resources(text: str, tail: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in tail.split(","):
        key, colon, value = (word.strip() for word in part.partition(":"))
        if not colon or not value:
            raise _error(
                text,
                i18n.text("has {part!r} where KEY:VALUE belongs", part=part.strip()),
                i18n.text("write {form}", form=FORM),
            )
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            hint = (
                i18n.text("did you mean {near!r}?", near=near)
                if near
                else i18n.text("known: {names}", names=", ".join(_KEYS))
            )
            raise _error(text, i18n.text("gives {key!r}, which is unknown", key=key), hint)
        if key in given:
            raise _error(text, i18n.text("gives {key!r} twice", key=key), "give it once")
        given[key] = value
    for key in ("cpu", "memory"):
        if key not in given:
            raise _error(text, i18n.text("has no {key}", key=key), i18n.text("write {form}", form=FORM))
    return given


def _number(text: str, key: str, value: str, *, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value) or int(value) < least:
        raise _error(
            text,
            i18n.text("gives {key}:{value}", key=key, value=value),
            i18n.text("write a whole number of at least {least}", least=least),
        )
    return int(value)


def _memory(text: str, value: str) -> Quantity:
    memory = parse_quantity(value)
    if memory is not None and memory.bytes >= 1024**3:
        return memory
    likely = f"{value}Gi" if value.isdigit() else likely_quantity(value)
    raise _error(
        text,
        i18n.text("gives {key}:{value}", key="memory", value=value),
        i18n.text("did you mean {likely}?", likely=likely) if likely else "write it like 900Gi",
    )


def _error(text: str, message: str, hint: str) -> PaictlError:
    sentence = i18n.text("SKU {sku!r} {wrong}", sku=text, wrong=i18n.sayable(message))
    return PaictlError(sentence, hint=hint, where="--sku")


def _regex(pattern: str) -> str:
    """A host pattern as a regular expression; empty where a range runs backwards or is too long."""
    parts: list[str] = []
    done = 0
    for match in _RANGE.finditer(pattern):
        first, last = int(match.group(1)), int(match.group(2))
        if not 0 <= last - first < _MOST:
            return ""
        width = len(match.group(1))
        numbers = "|".join(f"{number:0{width}d}" for number in range(first, last + 1))
        parts += [_plain(pattern[done : match.start()]), f"(?:{numbers})"]
        done = match.end()
    return "".join([*parts, _plain(pattern[done:])])


def _plain(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")


def assign(workers: Sequence[str], masters: Iterable[str], skus: Sequence[MachineSku]) -> dict[str, MachineSku]:
    """The SKU of each worker, and of each master that a pattern means; the first SKU that names a host has it.

    Raises `PaictlError` where workers are left over, two SKUs want the rest, or a SKU has no machine.
    """
    repeated = next((sku.name for i, sku in enumerate(skus) if sku.name in [s.name for s in skus[:i]]), None)
    if repeated is not None:
        raise PaictlError(
            i18n.text("the SKU {repeated!r} is given twice", repeated=repeated),
            where="--sku",
            hint="give each its own name",
        )
    rest = [sku for sku in skus if not sku.hosts]
    if len(rest) > 1:
        names = " and ".join(repr(sku.name) for sku in rest)
        hint = i18n.text("say which hosts each has: {sku}@HOSTS=…", sku=rest[0].name)
        raise PaictlError(i18n.text("{names} would both apply to all workers", names=names), where="--sku", hint=hint)
    by_host: dict[str, MachineSku] = {}
    for host in [*masters, *workers]:
        named = next((sku for sku in skus if sku.names(host)), None)
        if named is not None:
            by_host[host] = named
    left = [host for host in workers if host not in by_host]
    if left and not rest:
        some = i18n.listed(left, 3)
        raise PaictlError(
            i18n.text("no SKU covers the workers {hosts}", hosts=some),
            where="--sku",
            hint=i18n.text("add --sku '{form}' for them", form=FORM),
        )
    by_host.update(dict.fromkeys(left, rest[0]) if left else {})
    idle = next((sku for sku in skus if sku not in by_host.values()), None)
    if idle is not None:
        advice = "correct its hosts, or leave it out" if idle.hosts else "leave it out: other SKUs name all workers"
        raise PaictlError(i18n.text("no machine has the SKU {name!r}", name=idle.name), where="--sku", hint=advice)
    return by_host


def free_cpus(cpus: Decimal) -> Decimal:
    """What cells may be promised of a machine's CPUs; the rest is for its own programs."""
    return cpus - min(cpus * _RESERVED_SHARE, _RESERVED_CPUS)


def free_memory(memory: Decimal) -> Decimal:
    """The same of its memory, in MiB."""
    return memory - min(memory * _RESERVED_SHARE, _RESERVED_MIB)
