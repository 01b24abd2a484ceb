"""The pages of administrators: users, nodes and services, and the versions of the configuration.

Users are made, granted virtual clusters, given another password, taken away. To nodes and services the few things can
be done that suit a browser. Secrets of a configuration are seals here, as in every version.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.interface import ClusterError, ConfigVersion, NodeChange, Port
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.nodes import change_nodes
from paictl.operate.services import list_services, perform, prepare
from paictl.operate.users import accounts
from paictl.server.calls import Answer, ApiError, Call, bad, redirect
from paictl.server.portal.rendering import all_vcs, page
from paictl.server.routing import Access, Operation, Route
from paictl.service.carry_out import Patience
from paictl.service.plan import Action, ServiceRequest

USERS: Final = "/admin/users"
_GRANT: Final = "vc."
"""Boxes of granted virtual clusters are called so, for a form gives one value a name."""


def users(call: Call) -> Answer:
    """The list, and the form for a new one."""
    return _list(call)


def _list(call: Call, *, error: str = "", typed: Mapping[str, Any] | None = None) -> Answer:
    values = {
        "title": "Users",
        "here": "/admin",
        "tab": USERS,
        "users": call.cluster.users.accounts(),
        "vcs": all_vcs(call.cluster),
        "error": error,
        "typed": typed or {},
    }
    return page(call, "admin/users.html", values, status=400 if error else 200)


def add(call: Call) -> Answer:
    """A new user."""
    given = call.fields()
    new = accounts.NewUser(
        str(given.get("name", "")).strip(),
        str(given.get("password", "")),
        "admin" in given,
        _granted(given),
        str(given.get("email", "")).strip(),
    )
    try:
        accounts.check_vcs(call.cluster, new.vcs)
        if call.cluster.users.account(new.name) is None:
            accounts.check_free(call.cluster, new.name)
        made = accounts.add(call.cluster.users, new)
    except PaictlError as error:
        return _list(call, error=error.message, typed=given)
    return redirect(f"{USERS}/{made.name}")


def user(call: Call) -> Answer:
    """One user."""
    return _user_page(call)


def _user_page(call: Call, error: str = "") -> Answer:
    try:
        account = accounts.find(call.cluster.users, call.path["user"])
    except ClusterError as missing:
        raise ApiError(404, "NoUserError", missing.message) from None
    vcs = sorted({*all_vcs(call.cluster), *account.vcs})
    values = {"title": account.name, "here": "/admin", "tab": USERS, "user": account, "vcs": vcs, "error": error}
    return page(call, "admin/user.html", values, status=400 if error else 200)


def save(call: Call) -> Answer:
    """Grants, address, and whether the user is an administrator."""
    given, name = call.fields(), call.path["user"]
    change = accounts.AccountChange(_granted(given), str(given.get("email", "")).strip(), "admin" in given)
    try:
        accounts.update(call.cluster.users, name, change)
    except PaictlError as error:
        return _user_page(call, error.message)
    return redirect(f"{USERS}/{name}")


def password(call: Call) -> Answer:
    """Change the password; sessions with the old one end."""
    try:
        accounts.set_password(call.cluster.users, call.path["user"], str(call.fields().get("password", "")))
    except PaictlError as error:
        return _user_page(call, error.message)
    return redirect(f"{USERS}/{call.path['user']}")


def remove(call: Call) -> Answer:
    """Take the account away; the user's jobs stay."""
    try:
        accounts.remove(call.cluster.users, call.path["user"])
    except PaictlError as error:
        return _user_page(call, error.message)
    return redirect(USERS)


def _granted(given: Mapping[str, Any]) -> list[str]:
    return [name.removeprefix(_GRANT) for name in given if name.startswith(_GRANT)]


# --- nodes and services

NODES: Final = "/admin/nodes"
SERVICES: Final = "/admin/services"
_CHANGES: Final = (NodeChange.CORDON, NodeChange.UNCORDON)
_ACTIONS: Final = (Action.START, Action.STOP, Action.RESTART)
_PATIENCE: Final = 20.0
"""Seconds that a page waits for a service; after that the list says what it waits for."""


def nodes(call: Call) -> Answer:
    """The machines."""
    values = {"title": "Nodes", "here": "/admin", "tab": NODES, "nodes": call.cluster.nodes(), "now": call.cluster.now}
    return page(call, "admin/nodes.html", values)


def change_node(call: Call) -> Answer:
    """Cordon or uncordon a node."""
    chosen = str(call.fields().get("change", ""))
    change = next((change for change in _CHANGES if change.value == chosen), None)
    if change is None:
        raise bad("cordon or uncordon")
    change_nodes(call.cluster, [call.path["node"]], change)
    return redirect(NODES)


def services(call: Call) -> Answer:
    """The services in the order in which they start."""
    return _services(call)


def _services(call: Call, error: str = "", hint: str = "") -> Answer:
    lacking = call.cluster.lacks.get(Port.SERVICES, "")
    values = {
        "title": "Services",
        "here": "/admin",
        "tab": SERVICES,
        "lacking": lacking,
        "error": error,
        "hint": hint,
        "services": [] if lacking else list_services(call.cluster),
        "now": call.cluster.now,
    }
    return page(call, "admin/services.html", values, status=400 if error else 200)


def act(call: Call) -> Answer:
    """Start, stop or restart a service."""
    chosen = str(call.fields().get("action", ""))
    action = next((action for action in _ACTIONS if action.value == chosen), None)
    if action is None:
        raise bad("start, stop or restart")
    try:
        prepared = prepare(call.cluster, ServiceRequest(action, (call.path["service"],)))
        outcomes = perform(call.cluster, prepared, patience=Patience(deadline=_PATIENCE))
    except PaictlError as error:
        return _services(call, error.message, error.hint or "")
    failed = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    return redirect(SERVICES) if failed is None else _services(call, failed.message, failed.hint or "")


# --- versions of the configuration

CONFIGURATION: Final = "/admin/configuration"


def begin(_call: Call) -> Answer:
    """The users are what administrators come for first."""
    return redirect("/admin/users")


def history(call: Call) -> Answer:
    """All versions, the newest first."""
    versions = list(reversed(call.cluster.configurations()))
    authors = any(version.author for version in versions)
    return page(
        call,
        "admin/configuration.html",
        {"title": "Configuration", "here": "/admin", "tab": CONFIGURATION, "versions": versions, "authors": authors},
    )


def version(call: Call) -> Answer:
    """A version against the one before."""
    number = call.path["number"]
    versions = {str(configuration.number): configuration for configuration in call.cluster.configurations()}
    if number not in versions:
        raise ApiError(404, "NoApiError", text("no version {number}", number=number))
    kept = list(versions.values())
    place = kept.index(versions[number])
    before: Mapping[str, str] = kept[place - 1].files if place else {}
    return page(
        call,
        "admin/version.html",
        {
            "title": "Configuration",
            "here": "/admin",
            "tab": CONFIGURATION,
            "version": versions[number],
            "files": _changes(before, versions[number]),
        },
    )


def _changes(before: Mapping[str, str], after: ConfigVersion) -> list[dict[str, Any]]:
    """Each file with its lines: (sign, text), what stands around a change shortened."""
    changes = []
    for name in sorted({*before, *after.files}):
        old, new = before.get(name, ""), after.files.get(name, "")
        lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=3))[2:]
        changes.append({"name": name, "lines": [(line[0], line[1:]) for line in lines], "text": new})
    return changes


ROUTES: Final = (
    Route("GET", USERS, Access.ADMIN, users, Operation("Users")),
    Route("POST", USERS, Access.ADMIN, add, Operation("Add a user", answers=(303, 400)), slow=True),
    Route("GET", f"{USERS}/{{user}}", Access.ADMIN, user, Operation("A user", answers=(200, 400))),
    Route("POST", f"{USERS}/{{user}}", Access.ADMIN, save, Operation("Change a user", answers=(303, 400))),
    Route(
        "POST",
        f"{USERS}/{{user}}/password",
        Access.ADMIN,
        password,
        Operation("Another password", answers=(303, 400)),
        slow=True,
    ),
    Route("POST", f"{USERS}/{{user}}/remove", Access.ADMIN, remove, Operation("Take a user away", answers=(303, 400))),
    Route("GET", NODES, Access.ADMIN, nodes, Operation("Nodes")),
    Route(
        "POST",
        f"{NODES}/{{node}}",
        Access.ADMIN,
        change_node,
        Operation("Cordon or uncordon", answers=(303, 400)),
    ),
    Route("GET", SERVICES, Access.ADMIN, services, Operation("Services")),
    Route(
        "POST",
        f"{SERVICES}/{{service}}",
        Access.ADMIN,
        act,
        Operation("Start, stop, restart", answers=(303, 400)),
    ),
    Route("GET", "/admin", Access.ADMIN, begin, Operation("Administration", answers=(303,))),
    Route("GET", CONFIGURATION, Access.ADMIN, history, Operation("Versions of the configuration")),
    Route(
        "GET",
        f"{CONFIGURATION}/{{number}}",
        Access.ADMIN,
        version,
        Operation("What a version changed", answers=(200, 404)),
    ),
)
