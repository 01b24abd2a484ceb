"""Machines of the lists against the nodes of a running cluster: the same name and the same address on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paictl.deploy.inventory import Machine
from paictl.deploy.preflight.verdict import Facts, PreflightVerdict, fail, fine, warn
from paictl.i18n import text

Nodes = Mapping[str, list[str]]
"""The nodes of a cluster by name, with their internal addresses."""


def nodes_in(facts: Iterable[Facts]) -> Nodes | None:
    """The nodes of the cluster as a master has listed them; None where no master's API server answered."""
    answers: Iterable[Nodes | None] = (one.get("nodes") for one in facts)
    return next((one for one in answers if one is not None), None)


def addresses_of(items: Iterable[Facts]) -> Nodes:
    """Node objects as `Nodes`."""
    return {
        item["metadata"]["name"]: [
            one["address"] for one in item["status"].get("addresses", []) if one["type"] == "InternalIP"
        ]
        for item in items
    }


def check_node(machine: Machine, facts: Facts, nodes: Nodes | None) -> PreflightVerdict:
    """Whether the machine behind an address is the node that the lists say it is.

    Files are written by the names of the lists: on another node they would replace its network and its unit files.
    """
    listed = f"{machine.name} ({machine.place})" if machine.place else machine.name
    kubelet = facts.get("node")
    if kubelet and kubelet != machine.name:
        found = text("{address} is the node {node}", address=machine.address, node=kubelet)
        return fail(found, listed, _correct(machine, kubelet))
    others = [name for name, addresses in (nodes or {}).items() if name != machine.name]
    taken = [name for name in others if machine.address in (nodes or {})[name]]
    if taken:
        found = text("{address} is the address of the node {node}", address=machine.address, node=taken[0])
        return fail(found, listed, _correct(machine, taken[0]))
    hostname = facts["network"]["hostname"]
    if hostname.lower() != machine.name and hostname.split(".")[0].lower() != machine.name.split(".")[0]:
        found = text("the host calls itself {hostname}", hostname=hostname)
        return warn(found, listed, f"hostnamectl set-hostname {machine.name}")
    return fine(machine.name)


def _correct(machine: Machine, node: str) -> str:
    return text(
        "correct {place}, where two names may be swapped; to rename a node, first: paictl node remove {node}",
        place=machine.place or machine.name, node=node,
    )  # fmt: skip


def unlisted(machines: Iterable[Machine], nodes: Nodes | None) -> tuple[str, ...]:
    """The nodes of the cluster that no list names, as rows for one: ``name,address``."""
    listed = {one.name for one in machines}
    return tuple(",".join([name, *addresses[:1]]) for name, addresses in sorted((nodes or {}).items())
                 if name not in listed)  # fmt: skip
