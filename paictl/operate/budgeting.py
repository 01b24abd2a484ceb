"""Budgets set and removed from the command line: a new version of the configuration in which nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.cluster.interface import ConfigVersion, ConflictError
from paictl.config.models.services import STANDARD_NAME
from paictl.config.pushing.budgets import with_budget
from paictl.config.pushing.configfile import of_texts, texts_of
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.pushing.checking import check_alone, check_merged
from paictl.operate.pushing.plan import PushPlan, PushPorts, newest, plan_of, send


def plan_budget(cluster: PushPorts, vc: str, user: str, changes: Mapping[str, object] | None) -> PushPlan:
    """The plan of a push that changes keys of the budget of a virtual cluster and user, or removes it (None).

    Raises `PaictlError` if nothing was pushed yet, for a new budget without hours and for one to be removed that is not
    there, `RefusedFilesError` for what the rules find in the result.
    """
    base = newest(cluster)
    if base is None or STANDARD_NAME not in base.files:
        raise PaictlError(
            text("the cluster's configuration has no {name}", name=STANDARD_NAME),
            hint="push one: paictl config push -p DIR",
        )
    before = of_texts(base.files)
    files = {**before, STANDARD_NAME: with_budget(before[STANDARD_NAME], vc, user, changes)}
    check_merged(check_alone(files), files, before, files)
    return plan_of(cluster, base, texts_of(files))


def send_budget(cluster: PushPorts, push_plan: PushPlan, message: str) -> ConfigVersion:
    """Store what `plan_budget` has planned; raises `ConflictError` if another push came first."""
    try:
        return send(cluster, push_plan, message)
    except ConflictError as error:
        error.hint = text("run the same command again")  # there is nothing to review: it changes one budget
        raise
