"""Users, and the groups that they are in: a group is the grant of one virtual cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from paictl.cluster.accounts import Account, LastAdministratorError
from paictl.cluster.interface import ClusterError, ConflictError, UnreachableError
from paictl.i18n import text
from paictl.operate.users import accounts
from paictl.server.calls import Answer, ApiError, Call, answer_to, bad, json_answer, message_answer
from paictl.server.routing import Access, Operation, Route
from paictl.server.signing import SignIns

_TEXT: Final = {"type": "string"}
_NAMES: Final = {"type": "array", "items": _TEXT}
_USER: Final = {
    "type": "object",
    "required": ["username", "password"],
    "properties": {
        "username": _TEXT,
        "password": {"type": "string", "format": "password"},
        "admin": {"type": "boolean"},
        "email": _TEXT,
        "virtualCluster": _NAMES,
        "extension": {"type": "object", "maxProperties": 0},
    },
}
_CHANGE: Final = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {**_USER, "required": ["username"]}, "patch": {"type": "boolean", "default": False}},
}
_OWN: Final = {
    "type": "object",
    "properties": {"username": _TEXT, "email": _TEXT, "oldPassword": _TEXT, "newPassword": _TEXT},
}
_MINE: Final = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": _OWN,
        "patch": {"type": "boolean", "default": False},
    },
}
_GROUP: Final = {"type": "object", "required": ["groupname"], "properties": {"groupname": _TEXT}}
_GROUPS: Final = {"type": "object", "required": ["grouplist"], "properties": {"grouplist": _NAMES}}


def user_data(account: Account) -> dict[str, Any]:
    """A user as OpenPAI's clients know one."""
    return {
        "username": account.name,
        "admin": account.admin,
        "virtualCluster": list(account.vcs),
        "grouplist": list(account.vcs),
        "storageConfig": [],
        "email": account.email,
        "extension": {},
    }


def _account(call: Call, name: str) -> Account:
    """The account of a name. Raises `ApiError`."""
    account = call.cluster.users.account(name)
    if account is None:
        raise ApiError(404, "NoUserError", text("no user {name!r}", name=name))
    return account


def users(call: Call) -> Answer:
    """All users."""
    return json_answer([user_data(account) for account in call.cluster.users.accounts()])


def user(call: Call) -> Answer:
    """One user."""
    return json_answer(user_data(_account(call, call.path["user"])))


def create(call: Call) -> Answer:
    """A new user."""
    fields = call.fields()
    new = accounts.NewUser(
        _string(fields, "username"),
        _string(fields, "password"),
        _flag(fields, "admin"),
        _names(call, fields, "virtualCluster"),
        _string(fields, "email", ""),
    )
    _only(fields, _USER)
    _no_extension(fields)
    try:
        if call.cluster.users.account(new.name) is None:
            accounts.check_free(call.cluster, new.name)
        accounts.add(call.cluster.users, new)
    except ConflictError as error:
        more = {"hint": error.hint} if error.hint else {}
        raise ApiError(409, "ConflictUserError", error.message, **more) from None
    return message_answer("User is created successfully", 201)


def update(call: Call) -> Answer:
    """Change a user: what is said with `patch`, else everything."""
    fields = call.fields()
    data = _object(fields, "data")
    name = _string(data, "username")
    wanted = ("email", "virtualCluster", "admin", "password")
    if not _flag(fields, "patch") and (missing := [field for field in wanted if field not in data]):
        raise bad(text("these fields are required without patch: {names}", names=", ".join(missing)))
    _only(data, _USER)
    _no_extension(data)
    change = accounts.AccountChange(
        vcs=_names(call, data, "virtualCluster") if "virtualCluster" in data else None,
        email=_string(data, "email") if "email" in data else None,
        admin=_flag(data, "admin") if "admin" in data else None,
        password=_string(data, "password") if "password" in data else None,
    )
    _account(call, name)
    try:
        accounts.update(call.cluster.users, name, change)
    except LastAdministratorError as error:
        raise ApiError(403, "RemoveAdminError", error.message) from None
    return message_answer(f"update user {name} successfully", 201)


def remove(call: Call) -> Answer:
    """Remove a user; jobs stay."""
    name = _account(call, call.path["user"]).name
    try:
        accounts.remove(call.cluster.users, name)
    except LastAdministratorError as error:
        raise ApiError(403, "RemoveAdminError", error.message) from None
    return message_answer("user is removed successfully")


def update_self_with(sign_ins: SignIns) -> Route:
    """The route by which users change their own password and address."""

    def update_self(call: Call) -> Answer:
        data = _object(call.fields(), "data")
        me = call.me.account
        if data.get("username", me.name) != me.name:
            raise ApiError(403, "ForbiddenUserError", text("only {user} may do this", user=me.name))
        if taken := sorted(data.keys() & {"admin", "virtualCluster", "grouplist"}):
            raise ApiError(403, "ForbiddenUserError", text("only an administrator changes {name}", name=taken[0]))
        _only(data, _OWN)
        change = accounts.AccountChange(
            email=_string(data, "email") if "email" in data else None,
            password=_string(data, "newPassword") if "newPassword" in data else None,
        )
        proven = None
        if change.password is not None:
            proven = sign_ins.account(call, me.name, _string(data, "oldPassword", ""))
        accounts.update(call.cluster.users, me.name, change, proven)
        return message_answer(f"update user {me.name} successfully", 201)

    operation = Operation("Your own password and address", "user", (201, 429), takes={"application/json": _MINE})
    return Route("PUT", "/api/v2/users/me", Access.USER, update_self, operation, slow=True)


# --- groups


def groups(call: Call) -> Answer:
    """Every virtual cluster is the group of those to whom it was granted."""
    return json_answer([_group(name) for name in _vc_names(call)])


def group(call: Call) -> Answer:
    """One group."""
    return json_answer(_group(_known_group(call)))


def members(call: Call) -> Answer:
    """Who is in a group."""
    name = _known_group(call)
    grantees = [account for account in call.cluster.users.accounts() if name in account.vcs]
    return json_answer([{"username": account.name, "clusterAdmin": account.admin} for account in grantees])


def join(call: Call) -> Answer:
    """Grant a virtual cluster."""
    names = _names(call, {"groupname": [_string(call.fields(), "groupname")]}, "groupname")
    name = _account(call, call.path["user"]).name
    accounts.grant(call.cluster.users, name, names)
    return message_answer(f"User {name} is added into group {names[0]}", 201)


def leave(call: Call) -> Answer:
    """Take the grant of a virtual cluster back."""
    group_name = _string(call.fields(), "groupname")
    name = _account(call, call.path["user"]).name
    accounts.grant(call.cluster.users, name, (), (group_name,))
    return message_answer(f"User {name} is removed from group {group_name[:80]}", 201)


def grants(call: Call) -> Answer:
    """Say all grants of a user at once."""
    names = tuple(sorted(set(_names(call, call.fields(), "grouplist"))))
    name = _account(call, call.path["user"]).name
    accounts.change(call.cluster.users, name, lambda account: replace(account, vcs=names))
    return message_answer("update user grouplist successfully", 201)


def no_groups(_call: Call) -> Answer:
    """Groups come and go with virtual clusters."""
    raise ApiError(
        501,
        "NotImplementedError",
        text("groups are the configuration's virtual clusters: push a configuration to change them"),
    )


def _vc_names(call: Call) -> list[str]:
    return sorted(vc.name for vc in call.cluster.picture().vcs)


def _known_group(call: Call) -> str:
    name = call.path["group"]
    if name not in _vc_names(call):
        raise ApiError(404, "NoGroupError", text("no virtual cluster {vc!r}", vc=name))
    return name


def _group(name: str) -> dict[str, Any]:
    acls = {"admin": False, "virtualClusters": [name], "storageConfigs": []}
    return {
        "groupname": name,
        "description": f"who may submit to {name}",
        "externalName": "",
        "extension": {"acls": acls},
    }


# --- fields of a request


def _string(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise bad(text("{name} must be a string", name=name))
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise bad(text("{name} must be true or false", name=name))
    return value


def _object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise bad(text("{name} must be an object", name=name))
    return value


def _names(call: Call, fields: Mapping[str, Any], name: str) -> Sequence[str]:
    """Names of virtual clusters, all of which there are. Raises `ApiError`."""
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or len(value) > 1000:
        raise bad(text("{name} must be a list of names", name=name))
    try:
        accounts.check_vcs(call.cluster, value)
    except UnreachableError:
        raise
    except ClusterError as error:
        raise ApiError(400, "NoVirtualClusterError", answer_to(error).message) from None
    return value


def _only(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise `ApiError` for a field that nothing would be done with: a success would claim that it was."""
    if unknown := sorted(fields.keys() - schema["properties"].keys()):
        known = ", ".join(schema["properties"])
        raise bad(text("no field {name!r}; one of: {names}", name=unknown[0][:40], names=known))


def _no_extension(fields: Mapping[str, Any]) -> None:
    if fields.get("extension"):
        raise ApiError(501, "NotImplementedError", text("'extension' is not supported: remove it"))


def _spec(summary: str, *answers: int, takes: Mapping[str, Any] | None = None, tag: str = "user") -> Operation:
    return Operation(summary, tag, answers or (200,), takes={"application/json": takes} if takes else {})


def routes(sign_ins: SignIns) -> tuple[Route, ...]:
    """The routes of this module."""
    one_user, all_groups, one_group = "/api/v2/users/{user}", "/api/v2/groups", "/api/v2/groups/{group}"
    admin, me = Access.ADMIN, Access.USER
    return (
        Route("GET", "/api/v2/users", admin, users, _spec("All users")),
        Route("POST", "/api/v2/users", admin, create, _spec("Add a user", 201, 409, takes=_USER), slow=True),
        Route("PUT", "/api/v2/users", admin, update, _spec("Change a user", 201, 404, takes=_CHANGE), slow=True),
        update_self_with(sign_ins),
        Route("GET", one_user, Access.OWNER, user, _spec("A user", 200, 404)),
        Route("DELETE", one_user, admin, remove, _spec("Remove a user", 200, 404)),
        Route("PUT", f"{one_user}/group", admin, join, _spec("Grant a virtual cluster", 201, 404, takes=_GROUP)),
        Route("DELETE", f"{one_user}/group", admin, leave, _spec("Take a grant back", 201, 404, takes=_GROUP)),
        Route("PUT", f"{one_user}/grouplist", admin, grants, _spec("All grants of a user", 201, 404, takes=_GROUPS)),
        Route("GET", all_groups, me, groups, _spec("All groups", tag="group")),
        Route("POST", all_groups, admin, no_groups, _spec("Not done: groups are virtual clusters", 501, tag="group")),
        Route("PUT", all_groups, admin, no_groups, _spec("Not done: groups are virtual clusters", 501, tag="group")),
        Route("GET", one_group, me, group, _spec("A group", 200, 404, tag="group")),
        Route("DELETE", one_group, admin, no_groups, _spec("Not done: see above", 501, tag="group")),
        Route("GET", f"{one_group}/userlist", admin, members, _spec("Who is in a group", 200, 404, tag="group")),
    )
