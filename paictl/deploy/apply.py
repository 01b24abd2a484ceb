"""Planning and carrying out a deployment: the run folder, the phases, and what is said at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from paictl.deploy.artifacts import read_lock
from paictl.deploy.cluster_settings import refuse_fixed
from paictl.deploy.desired import Desired, desired_of
from paictl.deploy.downloads import without_password
from paictl.deploy.facts import HostFacts
from paictl.deploy.inspection import refuse_ended, refuse_other_nodes, refuse_other_version
from paictl.deploy.inventory import Deployment
from paictl.deploy.phases import LOOKING, PHASES, HostChange, phases, planned
from paictl.deploy.preflight.node_checks import nodes_in, unlisted
from paictl.deploy.site import TIMEOUT, JoinCredentials, Site
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.places import cache_folder
from paictl.plan import events
from paictl.plan.events import Listener, both
from paictl.plan.folder import RunFolder, begin_run, fingerprint, unfinished_run
from paictl.plan.run import PhaseOutcome, carry_out
from paictl.remote.ansible.run import AnsibleSession
from paictl.remote.private import private_folder

KIND: Final = "deploy"
_SCHEMA: Final = 1


@frozen
class PlanFile:
    """A plan that was written: the three files it was made of, what they meant, and what would change."""

    masters: str
    workers: str
    config: str
    fingerprint: str
    version: str
    changes: tuple[HostChange, ...]


def wish_of(desired: Desired) -> dict[str, Any]:
    """The desired state as JSON values without secrets: two deployments with the same one are the same."""
    deployment = desired.deployment
    settings = asdict(deployment.settings)
    settings.pop("notes")
    settings["login"].pop("password")
    settings["accounts"] = {host: account.username for host, account in deployment.settings.accounts.items()}
    if (proxies := deployment.settings.proxies) is not None:
        settings["proxies"] |= {name: without_password(getattr(proxies, name)) for name in ("http", "https")}
    return {
        "machines": [
            {"name": machine.name, "address": machine.address, "role": machine.role.value}
            for machine in deployment.machines
        ],
        "settings": settings,
        "kubernetes": desired.version,
        "artifacts": {artifact.name: artifact.sha256 for artifact in desired.artifacts.all},
    }


def prepare(deployment: Deployment, artifacts: str = "") -> Desired:
    """Put a deployment and its artifacts together; raises `PaictlError` where there is no artifact folder."""
    source = artifacts or deployment.settings.artifacts
    folder = Path(source.removeprefix("file://")).expanduser() if source else cache_folder() / "artifacts"
    if source.startswith(("http://", "https://")):
        key = "gather it once: paictl deploy bundle create --source {source} -o DIR, then deploy: {{artifacts: DIR}}"
        hint = text(key, source=source)
        raise PaictlError("artifacts must come from a folder", where=source, hint=hint)
    return desired_of(deployment, read_lock(folder))


@contextmanager
def opened(desired: Desired, folder: Path, timeout: float = TIMEOUT) -> Iterator[Site]:
    """A site with connections and a private folder, for as long as the block lasts."""
    with (
        private_folder() as private,
        AnsibleSession(
            desired.inventory(), folder, {**JoinCredentials().variables, **desired.deployment.hidden}
        ) as session,
    ):
        yield Site(desired, session, private, timeout)


@frozen
class DeployPlan:
    """What would change; `unlisted` are nodes that no list names, as ``name,address``: nothing is done about them."""

    changes: tuple[HostChange, ...]
    unlisted: tuple[str, ...] = ()
    facts: tuple[HostFacts, ...] = ()


def make_plan(desired: Desired, root: Path, now: Callable[[], datetime], listen: Listener) -> DeployPlan:
    """What would change, from a inspect all machines; raises `PaictlError` where one does not answer."""
    folder = begin_run(root, "deploy-plan", wish_of(desired), now(), desired.deployment.secrets)
    with opened(desired, folder.path) as site:
        outcomes = carry_out(phases(site, LOOKING), both(folder.listener(now), listen))
        raise_first(outcomes)
        refuse_other_nodes(site)
        refuse_other_version(site)
        refuse_ended(site)
        refuse_fixed(site)
        facts = tuple(site.facts.values())
        return DeployPlan(planned(site), unlisted_nodes(facts), facts)


def unlisted_nodes(facts: Iterable[HostFacts]) -> tuple[str, ...]:
    """The nodes that no list names, from the facts of all machines."""
    hosts = tuple(facts)
    return unlisted([facts.machine for facts in hosts], nodes_in(facts.host for facts in hosts))


@frozen
class Applied:
    """What became of an apply: its run, whether it went on with one that was interrupted, what changed."""

    run: RunFolder
    resumed: bool
    outcomes: tuple[PhaseOutcome, ...]
    changes: tuple[HostChange, ...]
    facts: tuple[HostFacts, ...] = ()
    lacks_network: bool = False
    """Whether nodes wait for the network of pods that the user brings."""

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The nodes that no list names, as ``name,address``."""
        return unlisted_nodes(self.facts)


def apply(
    desired: Desired,
    root: Path,
    now: Callable[[], datetime],
    listen: Listener,
    at_end: Callable[[Site], object] = lambda _: None,
    timeout: float = TIMEOUT,
    *,
    break_lock: bool = False,
    judge: Callable[[Site], object] = lambda _: None,
) -> Applied:
    """Carry out all phases; `at_end` is called with the site once the nodes are Ready.

    A run of the same wish that did not get to its end is gone on with: what was done is known from the hosts, never
    from the folder alone. A phase waits `timeout` seconds for Kubernetes. Raises `PaictlError` with the first failure.
    """
    request, secrets = wish_of(desired), desired.deployment.secrets
    before = unfinished_run(root, KIND, request, secrets)
    folder = before or begin_run(root, KIND, request, now(), secrets)
    with opened(desired, folder.path, timeout) as site:
        site.break_lock, site.judge = break_lock, judge
        changes: list[HostChange] = []
        times = PhaseTimes(folder.path, now)

        def note(_: object) -> None:
            if not changes and site.facts:
                changes.extend(planned(site))
                _write_plan(folder, changes)

        outcomes = carry_out(phases(site), both(folder.listener(now), both(times, both(note, listen))))
        raise_first(outcomes)
        at_end(site)
        facts = tuple(site.facts.values())
        return Applied(folder, before is not None, outcomes, tuple(changes), facts, site.lacks_network)


def raise_first(outcomes: tuple[PhaseOutcome, ...]) -> None:
    """Raise the error of the first phase that failed."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error


class PhaseTimes:
    """Listens and keeps ``times.json``: seconds by phase, of the last run in a folder."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self._folder, self._now = folder, now
        self._began: datetime = now()
        self._spent: dict[str, float] = {}

    def __call__(self, event: object) -> None:
        """Take an event."""
        match event:
            case events.PhaseBegan():
                self._began = self._now()
            case events.PhaseDone(phase) | events.PhaseFailed(phase, _, _, _):
                self._spent[phase] = round((self._now() - self._began).total_seconds(), 3)
            case events.RunEnded():
                text = json.dumps(self._spent, indent=1) + "\n"
                write_together(self._folder, {"times.json": text}, force=True, mode=0o600)


def _write_plan(folder: RunFolder, changes: list[HostChange]) -> None:
    text = json.dumps([asdict(change) for change in changes], indent=1) + "\n"
    write_together(folder.path, {"plan.json": text}, force=True, mode=0o600)


def plan_data(files: tuple[str, str, str], desired: Desired, changes: tuple[HostChange, ...]) -> dict[str, Any]:
    """A plan as values of JSON; `plan_from` reads it."""
    masters, workers, config = (str(Path(file).resolve()) for file in files)
    return {
        "schemaVersion": _SCHEMA,
        "masters": masters,
        "workers": workers,
        "config": config,
        "kubernetes": desired.version,
        "fingerprint": fingerprint(KIND, wish_of(desired)),
        "phases": [kind.name for kind in PHASES],
        "changes": [asdict(change) for change in changes],
    }


def plan_from(path: Path) -> PlanFile:
    """Read a plan file; raises `PaictlError` if the file is not a plan."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["schemaVersion"] != _SCHEMA:
            raise PaictlError("was written by another version of paictl", where=str(path), hint="plan again")
        changes = tuple(HostChange(row["phase"], row["host"], tuple(row["what"])) for row in data["changes"])
        return PlanFile(
            data["masters"], data["workers"], data["config"], data["fingerprint"], data["kubernetes"], changes
        )
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        hint = "write one: paictl deploy plan -m … -w … -c … -o FILE"
        raise PaictlError(
            text("is not a deployment plan: {error!r}", error=error), where=str(path), hint=hint
        ) from None


def check_plan(plan: PlanFile, desired: Desired) -> None:
    """Raise `PaictlError` if the files do not mean any more what they meant when the plan was made."""
    if plan.fingerprint != fingerprint(KIND, wish_of(desired)):
        hint = "review the changes, then plan again"
        raise PaictlError("the files or artifacts have changed since the plan was made", hint=hint)
