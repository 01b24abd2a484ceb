"""Plans in files: shown today, applied tomorrow, if the cluster is still the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from paictl.cluster.interface import ConflictError
from paictl.config.pushing.configfile import of_texts
from paictl.config.pushing.push import values_behind
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.i18n import text
from paictl.operate.pushing.folder import read
from paictl.operate.pushing.plan import PushPlan, PushPorts, newest, plan_of

_FORM: Final = {"kind": "paictl-config-plan", "schemaVersion": 1}


def write_plan(path: Path, made: PushPlan, message: str) -> None:
    """Keep a plan in a file that only its owner can read; secrets in it are sealed. Raises `PaictlError`."""
    data = {**_FORM, "cluster": made.cluster, "base": made.base, "message": message, "files": dict(made.files)}
    write_together(
        path.parent, {path.name: json.dumps(data, indent=2, ensure_ascii=False) + "\n"}, force=True, mode=0o600
    )


def read_plan(path: Path, cluster: PushPorts, folder: str | None = None) -> tuple[PushPlan, str]:
    """A plan from a file, and its message, as it would do now.

    The file has no secrets in clear: where a cluster needs new ones, they are read in the `folder` that it was made of.
    Raises `ConflictError` if it is one of another cluster, or the cluster has moved since; `PaictlError` if the file
    holds no plan.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        base, message = int(data["base"]), str(data["message"])
        files = {str(name): str(text) for name, text in data["files"].items()}
        fits = {key: data[key] for key in _FORM} == _FORM
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise PaictlError("holds no plan", where=str(path), hint="make one: paictl config plan -p DIR -o FILE")
    if data["cluster"] != cluster.name:
        raise ConflictError(
            text("is a plan for cluster {value}, but this is {name}", value=data["cluster"], name=cluster.name),
            where=str(path),
        )
    now = newest(cluster)
    if base != (now.number if now else 0):
        raise ConflictError(
            text("was made for version {base}, but the newest is {value}: the configuration has changed since",
                 base=base, value=now.number if now else 0),
            where=str(path), hint="make a new one: paictl config plan -p DIR -o FILE",
        )  # fmt: skip
    made = plan_of(cluster, now, files)
    return (
        made if folder is None else replace(made, secrets=values_behind(read(folder).files, of_texts(files)))
    ), message
