"""The versions of the configuration, and what each changed. Secrets are seals here, as in every version."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.interface import ConfigVersion
from paictl.i18n import text
from paictl.server.calls import Answer, ApiError, Call, redirect
from paictl.server.portal.rendering import page
from paictl.server.routing import Access, Operation, Route

PATH: Final = "/admin/configuration"


def begin(_call: Call) -> Answer:
    """The users are what administrators come for first."""
    return redirect("/admin/users")


def history(call: Call) -> Answer:
    """All versions, the newest first."""
    versions = list(reversed(call.cluster.configurations()))
    return page(call, "admin/configuration.html", {
        "title": "Configuration", "here": "/admin", "tab": PATH, "versions": versions})  # fmt: skip


def version(call: Call) -> Answer:
    """A version against the one before."""
    number = call.path["number"]
    versions = {str(configuration.number): configuration for configuration in call.cluster.configurations()}
    if number not in versions:
        raise ApiError(404, "NoApiError", text("no version {number}", number=number))
    kept = list(versions.values())
    place = kept.index(versions[number])
    before: Mapping[str, str] = kept[place - 1].files if place else {}
    return page(call, "admin/version.html", {
        "title": "Configuration", "here": "/admin", "tab": PATH, "version": versions[number],
        "files": _changes(before, versions[number])})  # fmt: skip


def _changes(before: Mapping[str, str], after: ConfigVersion) -> list[dict[str, Any]]:
    """Each file with its lines: (sign, text), what stands around a change shortened."""
    changes = []
    for name in sorted({*before, *after.files}):
        old, new = before.get(name, ""), after.files.get(name, "")
        lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=3))[2:]
        changes.append({"name": name, "lines": [(line[0], line[1:]) for line in lines], "text": new})
    return changes


ROUTES: Final = (
    Route("GET", "/admin", Access.ADMIN, begin, Operation("Administration", answers=(303,))),
    Route("GET", PATH, Access.ADMIN, history, Operation("Versions of the configuration")),
    Route(
        "GET",
        f"{PATH}/{{number}}",
        Access.ADMIN,
        version,
        Operation("What a version changed", answers=(200, 404)),
    ),
)
