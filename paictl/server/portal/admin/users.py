"""Users: made, granted virtual clusters, given another password, taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.interface import ClusterError
from paictl.errors import PaictlError
from paictl.operate.users import accounts
from paictl.server.calls import Answer, ApiError, Call, redirect
from paictl.server.portal.rendering import all_vcs, page
from paictl.server.routing import Access, Operation, Route

PATH: Final = "/admin/users"
_GRANT: Final = "vc."
"""Boxes of granted virtual clusters are called so, for a form gives one value a name."""


def users(call: Call) -> Answer:
    """The list, and the form for a new one."""
    return _list(call)


def _list(call: Call, *, error: str = "", typed: Mapping[str, Any] | None = None) -> Answer:
    values = {
        "title": "Users", "here": "/admin", "tab": PATH, "users": call.cluster.users.accounts(),
        "vcs": all_vcs(call.cluster), "error": error, "typed": typed or {},
    }  # fmt: skip
    return page(call, "admin/users.html", values, status=400 if error else 200)


def add(call: Call) -> Answer:
    """A new user."""
    given = call.fields()
    new = accounts.NewUser(
        str(given.get("name", "")).strip(), str(given.get("password", "")), "admin" in given, _granted(given),
        str(given.get("email", "")).strip(),
    )  # fmt: skip
    try:
        accounts.check_vcs(call.cluster, new.vcs)
        if call.cluster.users.account(new.name) is None:
            accounts.check_free(call.cluster, new.name)
        made = accounts.add(call.cluster.users, new)
    except PaictlError as error:
        return _list(call, error=error.message, typed=given)
    return redirect(f"{PATH}/{made.name}")


def user(call: Call) -> Answer:
    """One user."""
    return _user_page(call)


def _user_page(call: Call, error: str = "") -> Answer:
    try:
        account = accounts.find(call.cluster.users, call.path["user"])
    except ClusterError as missing:
        raise ApiError(404, "NoUserError", missing.message) from None
    vcs = sorted({*all_vcs(call.cluster), *account.vcs})
    values = {"title": account.name, "here": "/admin", "tab": PATH, "user": account, "vcs": vcs, "error": error}
    return page(call, "admin/user.html", values, status=400 if error else 200)


def save(call: Call) -> Answer:
    """Grants, address, and whether the user is an administrator."""
    given, name = call.fields(), call.path["user"]
    change = accounts.AccountChange(_granted(given), str(given.get("email", "")).strip(), "admin" in given)
    try:
        accounts.update(call.cluster.users, name, change)
    except PaictlError as error:
        return _user_page(call, error.message)
    return redirect(f"{PATH}/{name}")


def password(call: Call) -> Answer:
    """Change the password; sessions with the old one end."""
    try:
        accounts.set_password(call.cluster.users, call.path["user"], str(call.fields().get("password", "")))
    except PaictlError as error:
        return _user_page(call, error.message)
    return redirect(f"{PATH}/{call.path['user']}")


def remove(call: Call) -> Answer:
    """Take the account away; the user's jobs stay."""
    try:
        accounts.remove(call.cluster.users, call.path["user"])
    except PaictlError as error:
        return _user_page(call, error.message)
    return redirect(PATH)


def _granted(given: Mapping[str, Any]) -> list[str]:
    return [name.removeprefix(_GRANT) for name in given if name.startswith(_GRANT)]


ROUTES: Final = (
    Route("GET", PATH, Access.ADMIN, users, Operation("Users")),
    Route("POST", PATH, Access.ADMIN, add, Operation("Add a user", answers=(303, 400)), slow=True),
    Route("GET", f"{PATH}/{{user}}", Access.ADMIN, user, Operation("A user", answers=(200, 400))),
    Route("POST", f"{PATH}/{{user}}", Access.ADMIN, save, Operation("Change a user", answers=(303, 400))),
    Route("POST", f"{PATH}/{{user}}/password", Access.ADMIN, password,
          Operation("Another password", answers=(303, 400)), slow=True),
    Route("POST", f"{PATH}/{{user}}/remove", Access.ADMIN, remove, Operation("Take a user away", answers=(303, 400))),
)  # fmt: skip
