"""Which task a host name stands for, and who may reach it: a ticket of the portal, then a cookie of that host."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from typing import Final
from urllib.parse import urlsplit

from paictl.cluster.interface import Cluster, TaskPlace
from paictl.cluster.jobpages import KeepsJobData
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.users.tokens import SPANS, TokenKind, caller_within, issue
from paictl.server.calls import Answer, ApiError, Call, redirect
from paictl.server.routing import Access, Operation, Route, authorise
from paictl.server.workers import Elsewhere
from paictl.workload.ports import chosen_port, ports_of

ENTER: Final = "/.paictl/enter"
"""The one address of a task's host that is ours; a browser shows its ticket there."""
TICKET: Final = "ticket"
_LABEL: Final = 24
"""Hexadecimal digits of a host's first label: 96 bits, so that no two tasks have the same."""
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


@frozen
class TaskAddress:
    """A port of a task."""

    user: str
    name: str
    role: str
    index: int
    port: int

    @property
    def key(self) -> str:
        """The job."""
        return f"{self.user}~{self.name}"

    @property
    def task(self) -> TaskPlace:
        """The task."""
        return TaskPlace(self.role, self.index)

    @property
    def word(self) -> str:
        """It as part of a token."""
        content = json.dumps([self.user, self.name, self.role, self.index, self.port], separators=(",", ":"))
        return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")

    @property
    def label(self) -> str:
        """The first label of its host name."""
        return hashlib.sha256(self.word.encode()).hexdigest()[:_LABEL]


def address_of(word: str) -> TaskAddress | None:
    """The port of a task that a part of a token stands for; None if it is malformed."""
    try:
        user, name, role, index, port = json.loads(base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)))
        return TaskAddress(str(user), str(name), str(role), int(index), int(port))
    except (ValueError, TypeError, binascii.Error):
        return None


@frozen
class TaskSite:
    """Where tasks are shown: ``scheme://LABEL.base:port``."""

    scheme: str
    base: str
    port: str = ""

    def origin(self, label: str) -> str:
        """The origin of a task, as browsers write it."""
        return f"{self.scheme}://{label}.{self.base}{self.port}"

    def label_in(self, host: str) -> str:
        """The label of a task in a Host header; empty for any other name."""
        name = host.lower().rpartition(":")[0] if re.search(r":\d+\Z", host) else host.lower()
        label, _, base = name.partition(".")
        return label if base == self.base and re.fullmatch(rf"[0-9a-f]{{{_LABEL}}}", label) else ""


def site_of(address: str) -> TaskSite:
    """Where tasks are shown, from ``https://*.tasks.example.org``; raises `PaictlError` for anything else."""
    hint = text("for instance --tasks https://*.tasks.example.org, on this machine: --tasks http://*.localhost:9187")
    parts = urlsplit(address)
    star, _, base = (parts.hostname or "").partition(".")
    if parts.scheme not in ("http", "https") or star != "*" or parts.path not in ("", "/") or parts.query:
        raise PaictlError(
            text("--tasks {address}: expected an address with * as the first label", address=address), hint=hint
        )
    try:
        port = parts.port
    except ValueError:
        port = -1
    if port == -1 or not _HOST.fullmatch(base):
        raise PaictlError(text("--tasks {address}: this is not a host name and port", address=address), hint=hint)
    return TaskSite(parts.scheme, base, "" if port is None else f":{port}")


def open_route(site: TaskSite) -> Route:
    """The page of the portal that leads to a port of a task, and decides who may go there."""

    def opened(call: Call) -> Answer:
        word = call.path["index"]
        place = TaskPlace(call.path["role"], int(word) if word.isdigit() and len(word) < 7 else -1)
        key = f"{call.path['user']}~{call.path['name']}"
        cluster = call.cluster
        ports = ports_of(cluster.job_data(key)) if isinstance(cluster, KeepsJobData) else ()
        port = chosen_port(ports, place.role, place.index, call.path["port"])
        target = TaskAddress(call.path["user"], call.path["name"], place.role, place.index, port)
        account = call.me.account

        def reached(cluster: Cluster) -> Answer:
            cluster.dial(key, place, port).close()  # what cannot be reached is said here, in the portal
            ticket = issue(cluster.users, account, TokenKind.TICKET, scope=target.word)
            return redirect(f"{site.origin(target.label)}{ENTER}?{TICKET}={ticket}")

        raise Elsewhere(account.name, reached)

    return Route("GET", OPEN.path, OPEN.who, opened, Operation("Open what a task serves", answers=(303, 400)))


OPEN: Final = Route(
    "GET",
    "/jobs/{user}/{name}/open/{role}/{index}/{port}",
    Access.OWNER,
    lambda _: Answer(),
    Operation("Open what a task serves"),
)
"""Who may reach a task, for `authorise`."""


def entered(cluster: Cluster, ticket: str, label: str) -> str:
    """The cookie's value for a ticket, which is worth nothing from now on. Raises `ApiError`."""
    entitled(cluster, ticket, label, TokenKind.TICKET)
    entry = caller_within(cluster.users, ticket, TokenKind.TICKET)
    if entry is None:
        raise _expired()
    caller, scope = entry
    if not cluster.users.remove_tokens([caller.token.digest]):
        raise _expired()  # somebody else has just shown the same ticket
    return issue(cluster.users, caller.account, TokenKind.TASK, scope=scope)


def entitled(cluster: Cluster, token: str, label: str, kind: TokenKind = TokenKind.TASK) -> tuple[str, TaskAddress]:
    """Whose token it is and the port of a task that it opens, on the host with this label.

    Raises `ApiError` if the caller may not.
    """
    entry = caller_within(cluster.users, token, kind)
    target = address_of(entry[1]) if entry is not None else None
    if entry is None or target is None or target.label != label:
        raise _expired()
    authorise(OPEN, entry[0], {"user": target.user})
    return entry[0].name, target


def cookie_name(*, secure: bool) -> str:
    """The cookie of a task's host; over HTTPS one that no other host can set."""
    return "__Host-paictl-task" if secure else "paictl_task"


def cookie(token: str, *, secure: bool) -> str:
    """Its ``Set-Cookie``."""
    span = SPANS[TokenKind.TASK]
    seconds = int(span.total_seconds()) if span else 0
    rest = "; Secure" if secure else ""
    return f"{cookie_name(secure=secure)}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{rest}"


def _expired() -> ApiError:
    return ApiError(401, "UnauthorizedUserError", text("open this task again from its job's page in the portal"))
