"""Checks of how a host is reached and what it reaches: clock, names, addresses."""

from __future__ import annotations

import ipaddress
from typing import Final

from paictl.deploy.preflight.verdict import Check, DesiredHost, Facts, PreflightVerdict, fail, fine, unknown, warn
from paictl.i18n import text

SKEW: Final = 1.0
"""Seconds that clocks may differ: certificates and leases are judged by them."""
LEAST_MTU: Final = 1280


def check_clock(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The clock goes as the one here. The two instants of a host lie between two of ours, so that what the network
    takes is no error of its clock.
    """
    began, ended = facts["clock"]
    behind, ahead = desired.clock[0] - began, ended - desired.clock[1]
    off = max(behind, ahead)
    if off <= SKEW:
        return fine(text("as here"))
    way = text("{seconds:.0f} s behind", seconds=off) if behind > ahead else text("{seconds:.0f} s ahead", seconds=off)
    return fail(way, f"< {SKEW:g} s", "timedatectl set-ntp true")


def check_names(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The host finds its own name."""
    network = facts["network"]
    resolves = [ip for ip in network["resolves"] or () if not ipaddress.ip_address(ip.partition("%")[0]).is_loopback]
    hosts = f"echo '{desired.address} {network['hostname']}' >> /etc/hosts"
    if not network["resolves"]:
        return warn(text("{name} has no address", name=network["hostname"]), desired.address, hosts)
    if resolves and desired.address not in resolves:
        finding = f"{network['hostname']} = {', '.join(resolves)}"
        return warn(finding, desired.address, text("correct /etc/hosts or DNS: {command}", command=hosts))
    reverse = network["reverse"]
    if reverse and reverse.split(".")[0] not in (network["hostname"].split(".")[0], desired.name, "localhost"):
        return warn(f"{desired.address} = {reverse}", network["hostname"], text("correct its reverse entry in DNS"))
    return fine(network["hostname"])


def check_address(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The address of the list is one of the host's own: nodes are known by it."""
    network = facts["network"]
    if network["interface"]:
        return fine(f"{desired.address} ({network['interface']})")
    fix = text("write the address of one of its interfaces into the list: ip -brief addr")
    return fail(text("no interface has {address}", address=desired.address), text("its own address"), fix)


def check_api(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """The host can reach the API's address; a refused connection is as good, as nothing listens there yet."""
    reached = facts["network"]["reached"]
    if not reached:
        return fine("-")
    bad = {place: state for place, state in reached.items() if state not in ("open", "closed")}
    if not bad:
        return fine(", ".join(reached))
    place, problem = next(iter(bad.items()))
    port = place.rpartition(":")[2]
    fix = text(
        "allow port {port} between the hosts: ufw allow {port}/tcp, or firewall-cmd --add-port={port}/tcp", port=port
    )
    return fail(f"{place}: {problem}", text("{place} answers or refuses", place=place), fix)


def check_mtu(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """Packets of a useful size; that all hosts have the same is looked at over all of them."""
    network = facts["network"]
    mtu = network["mtu"]
    if mtu is None:
        return unknown(text("no interface"))
    if mtu < LEAST_MTU:
        return fail(str(mtu), f">= {LEAST_MTU}", f"ip link set {network['interface']} mtu 1500")
    return fine(str(mtu))


CHECKS: Final[dict[str, Check]] = {
    "clock": check_clock,
    "names": check_names,
    "address": check_address,
    "api": check_api,
    "mtu": check_mtu,
}
