"""Budgets set and removed from the command line: a new version of the configuration in which nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from paictl.cluster.interface import ConfigVersion
from paictl.config.models.services import STANDARD_NAME
from paictl.config.pushing.merge import merge
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.pushing.checking import check_alone, check_merged
from paictl.operate.pushing.plan import PushPlan, PushPorts, newest, plan_of
from paictl.workload.sharing import SECTION


def plan_budget(cluster: PushPorts, vc: str, user: str, changes: Mapping[str, object] | None) -> PushPlan:
    """The plan of a push that changes keys of the budget of a virtual cluster and user, or removes it (None).

    Raises `PaictlError` if nothing was pushed yet, for a new budget without hours and for one to be removed that is not
    there, `RefusedFilesError` for what the rules find in the result.
    """
    base = newest(cluster)
    if base is None or STANDARD_NAME not in base.files:
        raise PaictlError(
            text("there is no {name} in the cluster's configuration", name=STANDARD_NAME),
            hint="push one: paictl config push -p DIR",
        )  # fmt: skip
    rows = _rows(base)
    mine = [row for row in rows if (str(row.get("vc", "")), str(row.get("user", ""))) == (vc, user)]
    if changes is None:
        if not mine:
            raise PaictlError(text("there is no such budget"), hint="list them with: paictl usage budget list")
        rows = [row for row in rows if row not in mine]
    elif mine:
        mine[0].update(changes)
    elif "device-hours" not in changes:
        raise PaictlError(text("a new budget needs a number of device hours"), where="--hours")
    else:
        rows.append({**({"vc": vc} if vc else {}), **({"user": user} if user else {}), **changes})
    said = yaml.safe_dump({SECTION: {"budgets": rows}}, sort_keys=False, allow_unicode=True)
    old = base.files[STANDARD_NAME]
    files = {**base.files, STANDARD_NAME: merge(old, said).text}
    names = {name: name for name in files}
    check_merged(check_alone(files, names), files, base.files, names)
    return plan_of(cluster, base, files)


def _rows(version: ConfigVersion) -> list[dict[str, Any]]:
    data = yaml.safe_load(version.files[STANDARD_NAME])
    section = data.get(SECTION) if isinstance(data, dict) else None
    rows = section.get("budgets") if isinstance(section, dict) else None
    return [dict(row) for row in rows or ()]
