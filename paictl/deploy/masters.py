"""The program that saves and restores etcd, run on masters: arguments and results as JSON, one verb at a time."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.i18n import text
from paictl.remote.inventory import Host
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.results import HostResult, exit_code
from paictl.resources import resource_folder

TRANSFER: Final = 3600.0
"""Seconds that a snapshot may be under way; etcd keeps at most 8 GiB."""
_VERB: Final = 600.0

Told = Mapping[str, Any]
"""What a verb has told of a master."""


class Masters:
    """The masters behind open connections."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._program = (resource_folder("playbooks") / "files" / "paictl_etcd.py").read_bytes()

    def ask(
        self, verb: str, wish: Told | None = None, hosts: Iterable[Host] | None = None
    ) -> tuple[dict[str, Told], dict[str, HostResult]]:
        """What each master told, by name, and the results of those that did not."""
        line = f"python3 -B - {verb} {shlex.quote(json.dumps(wish or {}))}"
        results = self.fleet.run(
            line, stdin=self._program, manner=CommandOptions(sudo=True, timeout=_VERB), hosts=hosts
        )
        told = {name: json.loads(one.stdout) for name, one in results.items() if one.ok}
        return told, {name: one for name, one in results.items() if not one.ok}

    def all(self, verb: str, wish: Told | None = None) -> dict[str, Told]:
        """What all masters told; raises `DeployError` with what is wrong on those that did not."""
        told, bad = self.ask(verb, wish)
        raise_for(bad, len(told) + len(bad))
        return told

    def upload(self, source: Path, target: Callable[[str], str]) -> None:
        """Put a file on all masters, where each wants it; raises `DeployError` where that did not work."""
        places: dict[str, list[Host]] = {}
        for host in self.fleet.inventory:
            places.setdefault(target(host.name), []).append(host)
        for place, hosts in places.items():
            results = self.fleet.upload(
                source, place, mode=0o600, manner=CommandOptions(sudo=True, timeout=TRANSFER), hosts=hosts
            )
            raise_for({name: one for name, one in results.items() if not one.ok}, len(results))


def raise_for(bad: Mapping[str, HostResult], of: int) -> None:
    """Raise `DeployError` naming the masters that did not do it, if there are any."""
    if not bad:
        return
    said = "; ".join(f"{name}: {why(one)}" for name, one in list(bad.items())[:3])
    code = exit_code(bad)
    if code is not ExitCode.NEGATIVE and len(bad) < of:
        code = ExitCode.PARTIAL
    hint = next((one.hint for one in bad.values() if one.hint), "") or text("run the same command again to resume")
    raise DeployError(said, exit_code=code, hint=hint)


def why(result: HostResult) -> str:
    """Why a master did not do it, in a line."""
    lines = result.stderr.strip().splitlines()
    return result.message or (lines[-1] if lines else text("ended with code {code}", code=result.code))
