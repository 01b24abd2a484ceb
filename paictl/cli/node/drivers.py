"""The GPU drivers of nodes for people: nodes with the same driver in one line, and how to exchange an old one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from paictl.cli import console
from paictl.cluster.interface import DriverSource, NodeDriver
from paictl.i18n import Text, sayable, text

_SHOWN: Final = 8
"""Nodes that a line names."""


def say_drivers(drivers: Iterable[NodeDriver]) -> None:
    """A line for all nodes with the same driver, those without one as warnings; nothing without nodes."""
    lines: dict[tuple[bool, Text], list[str]] = {}
    outdated: NodeDriver | None = None
    for driver in drivers:
        lines.setdefault((driver.source is DriverSource.NONE or driver.outdated, _condition(driver)), []).append(
            driver.node
        )
        outdated = outdated or (driver if driver.outdated else None)
    for (wrong, condition), nodes in sorted(lines.items(), key=lambda line: line[1]):
        tell = console.warning if wrong else console.info
        tell(text("GPU driver of {nodes}: {condition}", nodes=_named(nodes), condition=condition))
    if outdated is not None:
        _say_exchange(outdated)


def _condition(driver: NodeDriver) -> Text:
    values: Mapping[str, object] = {
        "version": driver.version or text("unknown version"),
        "wanted": driver.wanted,
        "reason": sayable(driver.reason),
    }
    if driver.source is DriverSource.HOST:
        return text("{version}, the machine's own, which is left alone", **values)
    if driver.source is DriverSource.NONE:
        return text("none: {reason}", **values)
    if driver.outdated and driver.reason:
        return text("{version}, not {wanted}: {reason}", **values)
    if driver.outdated:
        return text("{version}, not {wanted} yet", **values)
    return text("{version}, installed by this service", **values)


def _say_exchange(driver: NodeDriver) -> None:
    """The steps for one node, in the order in which nothing loses its driver while it runs."""
    node, pod = driver.node, driver.pod
    console.info(text("Running drivers are not replaced automatically. For each node, for example {node}:", node=node))
    for line in (
        f"paictl maintenance add --nodes {node} --for 2h",
        f"kubectl -n paictl-system delete pod {pod}",
        f"paictl node run -m master.csv -w worker.csv -c config.yaml --sudo -n {node} reboot",
    ):
        console.info(f"  {line}")


def _named(nodes: list[str]) -> str:
    names = ", ".join(nodes[:_SHOWN])
    more = len(nodes) - _SHOWN
    return names if more <= 0 else str(text("{names} and {count} more", names=names, count=more))
