"""An upgrade of all machines to another version of Kubernetes: the target, the run's folder, the phases."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from paictl.deploy.apply import PhaseTimes, opened, prepare, raise_first, wish_of
from paictl.deploy.desired import Desired
from paictl.deploy.inventory import Deployment
from paictl.deploy.upgrading import UpgradeOptions, UpgradeWork, upgrade_phases
from paictl.deploy.versions import UpgradePlan, UpgradeStep, Version
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.plan import events
from paictl.plan.events import Listener, both
from paictl.plan.folder import RunFolder, begin_run, unfinished_run
from paictl.plan.run import PhaseOutcome, carry_out

KIND: Final = "deploy-upgrade"


@frozen
class Upgraded:
    """What became of an upgrade: its run, whether it went on with one that was interrupted, what was done."""

    run: RunFolder
    resumed: bool
    outcomes: tuple[PhaseOutcome, ...]
    steps: tuple[UpgradeStep, ...]


def wished(deployment: Deployment, target: Version, artifacts: str = "") -> Desired:
    """The deployment with another version; raises `PaictlError` if the artifacts are of none or another one."""
    settings = replace(deployment.settings, version=str(target))
    return prepare(replace(deployment, settings=settings), artifacts)


def upgrade(
    desired: Desired, options: UpgradeOptions, root: Path, now: Callable[[], datetime], listen: Listener
) -> Upgraded:
    """Upgrade what is left to upgrade; raises `PaictlError` with the first failure.

    The machines alone say what was done, so any administrator can run it again at any time.
    """
    about: dict[str, Any] = {**wish_of(desired), "upgrade": str(options.target)}
    secrets = desired.deployment.secrets
    before = unfinished_run(root, KIND, about, secrets)
    folder = before or begin_run(root, KIND, about, now(), secrets)
    with opened(desired, folder.path) as site:
        site.command, site.break_lock = "deploy upgrade", options.break_lock
        work = UpgradeWork(site, options)

        def note(event: object) -> None:
            if isinstance(event, events.PhaseDone) and event.phase == "versions":
                _write_plan(folder, work.plan)

        hearing = both(folder.listener(now), both(PhaseTimes(folder.path, now), both(note, listen)))
        outcomes = carry_out(upgrade_phases(work), hearing)
        raise_first(outcomes)
        return Upgraded(folder, before is not None, outcomes, work.plan.steps)


def _write_plan(folder: RunFolder, plan: UpgradePlan) -> None:
    """Keep what this run is about to do beside its events."""
    text = json.dumps(asdict(plan), indent=1) + "\n"
    write_together(folder.path, {"plan.json": text}, force=True, mode=0o600)
