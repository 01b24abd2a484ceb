"""Whether the machines' accounts at registries work, tried from each machine, for `deploy verify`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from paictl.deploy.archive import why as why_not
from paictl.deploy.downloads import server_of
from paictl.deploy.inventory import Deployment, hosts_of
from paictl.deploy.settings import DeploySettings
from paictl.deploy.verifying import CheckState, NodeCheck
from paictl.i18n import text
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import HostResult
from paictl.resources import resource_folder

_CHECK: Final = "registry"
_SECONDS: Final = 60


def registry_findings(deployment: Deployment, options: SshOptions) -> tuple[NodeCheck, ...]:
    """One finding for each machine and registry with an account; none where there are no accounts.

    Accounts are sent over standard input, so that no command line and no file contains them.
    """
    accounts = tuple(accounts_to_try(deployment.settings))
    if not accounts:
        return ()
    program = (resource_folder("playbooks") / "files" / "paictl_registries.py").read_bytes()
    request = json.dumps([{name: value for name, value in account.items() if name != "host"} for account in accounts])
    stdin = program + f"\nmain(json.loads({request!r}))\n".encode()
    with Fleet(hosts_of(deployment), options) as fleet:
        results = fleet.run("python3 -", stdin=stdin, manner=CommandOptions(sudo=True, timeout=_SECONDS))
    hosts = [account["host"] for account in accounts]
    return tuple(finding for name, result in results.items() for finding in _findings(name, result, hosts))


def accounts_to_try(settings: DeploySettings) -> Iterator[dict[str, str]]:
    """The accounts with where each is asked: `host` as in config.yaml, `url`, `username`, `password`."""
    places = {_host(url): url for urls in settings.mirrors.values() for url in urls}
    for host, account in settings.accounts.items():
        scheme = "http" if host in settings.insecure else "https"
        base = places.get(host, f"{scheme}://{server_of(host)}")
        yield {
            "host": host,
            "url": f"{base.rstrip('/')}/v2/",
            "username": account.username,
            "password": account.password,
        }


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _findings(node: str, result: HostResult, hosts: list[str]) -> Iterator[NodeCheck]:
    answers = _read(result, len(hosts))
    if answers is None:
        yield NodeCheck(_CHECK, node, CheckState.WARNING, why_not(result))
        return
    for host, (state, detail) in zip(hosts, answers, strict=True):
        check = f"{_CHECK}:{host}"
        if state == "ok":
            yield NodeCheck(check, node, CheckState.OK)
        elif state == "refused":
            message = text(
                "{host} refuses the account (HTTP {status}): see registry_credentials", host=host, status=detail
            )
            yield NodeCheck(check, node, CheckState.FAILED, message)
        else:
            yield NodeCheck(check, node, CheckState.FAILED, text("{host}: {why}", host=host, why=detail))


def _read(result: HostResult, count: int) -> list[tuple[str, str]] | None:
    """A machine's answers; None if the script failed or printed anything else."""
    if not result.ok:
        return None
    try:
        answer: Any = json.loads(result.stdout)
        answers = [(str(state), str(detail)) for state, detail in answer]
    except (ValueError, TypeError):
        return None
    return answers if len(answers) == count else None
