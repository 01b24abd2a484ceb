"""A budget set or removed in service settings; everything else stays as it is written, comments as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from paictl.config.pushing.configfile import ConfigFile
from paictl.config.pushing.merge import merge
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.workload.budgets import SECTION


def with_budget(settings: ConfigFile, vc: str, user: str, changes: Mapping[str, object] | None) -> ConfigFile:
    """Service settings with other keys of the budget of a virtual cluster and user, or without it (None).

    Raises `PaictlError` for a new budget without hours, one to be removed that is not there, and a text that cannot be
    changed so.
    """
    rows = _rows(settings)
    mine = [row for row in rows if (str(row.get("vc", "")), str(row.get("user", ""))) == (vc, user)]
    if changes is None:
        if not mine:
            raise PaictlError(text("no such budget"), hint="list them with: paictl usage budget list")
        rows = [row for row in rows if row not in mine]
    elif mine:
        mine[0].update(changes)
    elif "device-hours" not in changes:
        raise PaictlError(text("a new budget needs a number of device hours"), where="--hours")
    else:
        rows.append({**({"vc": vc} if vc else {}), **({"user": user} if user else {}), **changes})
    content = yaml.safe_dump({SECTION: {"budgets": rows}}, sort_keys=False, allow_unicode=True)
    return merge(settings, settings.with_text(content)).file


def _rows(settings: ConfigFile) -> list[dict[str, Any]]:
    data = yaml.safe_load(settings.text)
    section = data.get(SECTION) if isinstance(data, dict) else None
    rows = section.get("budgets") if isinstance(section, dict) else None
    return [dict(row) for row in rows or ()]
