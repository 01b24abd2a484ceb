"""Secrets at rest: whether masters encrypt them, how that changes on a running cluster, and new keys.

No master may ever meet a Secret that it cannot read. So a change goes over all masters in two steps: first each of
them reads with the key that comes, then each of them writes with it. Then all Secrets are written again. Keys are made
on the first master and stay on the masters (playbooks/module_utils/paictl_encryption.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.joining import api
from paictl.deploy.nodes import patiently
from paictl.deploy.site import DeployError, Site
from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND

IDENTITY: Final = "identity"
"""What writes where Secrets are not encrypted."""
_CONFLICT: Final = 409


@frozen
class EncryptionState:
    """A master: whether its API server has the file, what writes ("" without a file), what Secrets are written with.

    `written` is noted on the first master only; empty where nobody knows.
    """

    used: bool = False
    writer: str = ""
    written: str = ""

    @property
    def encrypts(self) -> bool:
        """Whether this master writes Secrets with a key."""
        return self.used and self.writer not in ("", IDENTITY)


@frozen
class EncryptionSteps:
    """Operations on all masters before and after the API servers get their arguments; "" for none."""

    before: str = ""
    after: str = ""
    rewrite: bool = False


def state_of(facts: HostFacts) -> EncryptionState:
    """What a master does, from its facts."""
    values: Mapping[str, Any] = facts.values.get("encryption") or {}
    return EncryptionState(bool(values.get("used")), str(values.get("writer", "")), str(values.get("written", "")))


def steps_to(encrypts: bool, states: Iterable[EncryptionState]) -> EncryptionSteps:
    """What takes masters, the first one first, to the wanted state from any state that was interrupted."""
    masters = tuple(states)
    first = masters[0]
    if not encrypts:
        stop = any(master.encrypts for master in masters)
        rewrite = stop or _may_remain(first, used=any(master.used for master in masters))
        return EncryptionSteps("stop" if stop else "", "", rewrite)
    begin = not all(master.used for master in masters)
    write = begin or not all(master.encrypts for master in masters)
    differ = len({master.writer for master in masters}) > 1
    after = "write" if write else "promote" if differ else ""
    return EncryptionSteps("begin" if begin else "", after, bool(after) or first.written != first.writer)


def _may_remain(first: EncryptionState, *, used: bool) -> bool:
    """Whether Secrets may be left that a key is needed for; where no API server has the file, only a note tells."""
    return first.written != IDENTITY and (used or first.written != "")


def encryption_changes(encrypts: bool, facts: HostFacts, *, first: bool) -> list[str]:
    """What differs on a master that has joined, in words."""
    state = state_of(facts)
    if encrypts and not state.encrypts:
        return [text("secrets_encryption: off -> on")]
    if not encrypts and state.encrypts:
        return [text("secrets_encryption: on -> off")]
    if first and (state.written != state.writer if encrypts else _may_remain(state, used=state.used)):
        return [text("secrets_encryption: existing Secrets are written again")]
    return []


def change_keys(site: Site, operation: str, tell: Tell) -> None:
    """Take a step on all masters, one after the other; the API server of each starts again."""
    variables = {"paictl_operation": operation, "paictl_seconds": int(site.timeout)}
    site.play("encryption", tell, site.desired.deployment.masters, variables)


def rewrite_secrets(site: Site, tell: Tell) -> int:
    """Write all Secrets again, so that the API server stores them as it does now; how many there were.

    What others change or delete meanwhile is written by them. The first master keeps a note of it.
    """
    client = api(site)
    count = sum(_rewrite(client, secret) for secret in patiently(partial(_secrets, client)))
    site.play("encryption_note", tell, [site.desired.deployment.first])
    tell(text("{count} Secrets written again", count=count), "")
    return count


def _secrets(client: KubeClient) -> list[Any]:
    return [item for _, page in client.list("/api/v1/secrets") for item in page]


def _rewrite(client: KubeClient, secret: Any) -> bool:
    meta = secret["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/secrets/{meta['name']}"
    body = {"apiVersion": "v1", "kind": "Secret", **secret}
    try:
        patiently(partial(client.request, "PUT", path, body))
    except KubeError as error:
        if error.status not in (NOT_FOUND, _CONFLICT):
            raise
        return False
    return True


def rotate(site: Site, tell: Tell) -> int:
    """Encrypt all Secrets with a new key; how many were written. Raises `DeployError` where they are not encrypted.

    The facts of the site are there. Interrupted anywhere, doing it again is right.
    """
    masters = site.desired.deployment.masters
    for machine in masters:
        if not site.facts[machine.name].joined(site.cluster):
            raise DeployError(
                text("{host} is not in the cluster", host=machine.name),
                exit_code=ExitCode.NEGATIVE,
                hint="paictl deploy apply -m … -w … -c …",
            )
        if not state_of(site.facts[machine.name]).encrypts:
            message = text("{host} does not encrypt Secrets", host=machine.name)
            hint = text("set deploy: {{secrets_encryption: true}} and run paictl deploy apply; nothing was changed")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
    for operation in ("add", "promote"):
        change_keys(site, operation, tell)
    return rewrite_secrets(site, tell)


def states_of(site: Site) -> Iterator[EncryptionState]:
    """What the masters that have joined do, the first one first."""
    for machine in site.desired.deployment.masters:
        facts = site.facts[machine.name]
        if facts.joined(site.cluster):
            yield state_of(facts)
