"""Templates → pages: escaping, languages, the content security policy, navigation, instants and spans."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import Cluster, Port
from paictl.frozen import frozen
from paictl.i18n import catalogue, in_language
from paictl.operate.users.tokens import Caller
from paictl.resources import resource_folder
from paictl.server.calls import Answer, ApiError, Call, NavigationEntry
from paictl.server.credentials import csrf_of
from paictl.units import span_text

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LOCAL: Final = re.compile(r"/(?![/\\])[A-Za-z0-9_.~/?&=%+-]*")
"""An address on this server: what ``//`` or a backslash begins would be another one's."""

NAVIGATION: Final[tuple[NavigationEntry, ...]] = (
    ("/", "Home", False),
    ("/jobs", "Jobs", False),
    ("/submit", "Submit", False),
    ("/templates", "Templates", False),
    ("/cluster", "Cluster", False),
    ("/usage", "Device hours", False),
    ("/admin", "Administration", True),
)


def page_headers() -> dict[str, str]:
    """The headers of every page."""
    return {"Content-Security-Policy": _POLICY, "X-Frame-Options": "DENY"}


def folder() -> Path:
    """Templates and static files."""
    return resource_folder("templates") / "portal"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(static=static_address)
    environment.filters.update(clock=clock, span=span_text)
    return environment


def prepare(template: str) -> None:
    """Compile a template before the first request needs it."""
    _environment().get_template(template)


@cache
def static_address(name: str) -> str:
    """The address of a static file; it changes with the content, so that browsers may keep it."""
    digest = hashlib.sha256((folder() / "static" / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def translator(language: str) -> Callable[..., str]:
    """What templates call to say something: ``t("{count} jobs", count=3)``; the result is escaped as all else is."""
    words = catalogue(language)

    def message(key: str, **values: object) -> str:
        if not values:
            translation = in_language(key, language)
            return in_language(reasons(key), language) if translation == key and key else translation
        return words.gettext(key).format(**values)

    return message


def page(call: Call, template: str, values: Mapping[str, Any] | None = None, *, status: int = 200) -> Answer:
    """A page for the caller; templates extend ``base.html`` and see `values` beside what every page has."""
    shared = {
        "me": call.caller,
        "csrf": csrf_of(call.session),
        "language": call.language,
        "theme": call.theme,
        "t": translator(call.language),
        "navigation": NAVIGATION + call.pages,
        "cluster_name": call.cluster.name,
    }
    text = _environment().get_template(template).render({**shared, **(values or {})})
    return Answer(text.encode(), status, "text/html")


def error_page(error: ApiError, language: str, theme: str, caller: Caller | None = None, session: str = "") -> Answer:
    """An error for a person, with the navigation for one who is signed in."""
    hint = error.more.get("hint", "")
    hint = "" if of_commands(hint) else in_language(hint, language)
    values = {
        "me": caller,
        "csrf": csrf_of(session),
        "language": language,
        "theme": theme,
        "t": translator(language),
        "navigation": NAVIGATION,
        "cluster_name": "",
        "status": error.status,
        "message": in_language(error.message, language),
        "hint": hint,
    }
    text = _environment().get_template("error.html").render(values)
    return Answer(text.encode(), error.status, "text/html", error.headers)


def of_commands(hint: str) -> bool:
    """Whether a hint speaks of the command line, which is of no use on a page."""
    return "--" in hint or "paictl " in hint


def fragment(call: Call, template: str, values: Mapping[str, Any]) -> Answer:
    """A piece of a page, which a script puts in the place of an older one."""
    return page(call, template, values)


def local_address(wanted: str) -> str:
    """An address on this server to go on to; the list of jobs for anything else."""
    return wanted if _LOCAL.fullmatch(wanted) else "/jobs"


def sign_in_address(wanted: str) -> str:
    """Where to sign in, and to come back from."""
    go_on = local_address(wanted)
    return "/sign-in" if go_on in ("/jobs", "/") else f"/sign-in?next={quote(go_on, safe='/')}"


MOST_SHOWN: Final = 200
"""Tasks, events or lines of one thing that a page shows; it says how many more there are."""


def clock(at: datetime | None) -> str:
    """An instant as date and time of the cluster; `-` for none."""
    return "-" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


@frozen
class Paging:
    """Where a list begins and ends, and the addresses of the pages before and after; empty where there is none."""

    first: int
    last: int
    total: int
    before: str = ""
    after: str = ""


def paging(path: str, query: Mapping[str, str], offset: int, limit: int, total: int) -> Paging:
    """The place of a page in its list."""
    before = address(path, {**query, "offset": str(max(offset - limit, 0))}) if offset > 0 else ""
    after = address(path, {**query, "offset": str(offset + limit)}) if offset + limit < total else ""
    return Paging(min(offset + 1, total), min(offset + limit, total), total, before, after)


def address(path: str, query: Mapping[str, str]) -> str:
    """A path with what is set of a query."""
    words = urlencode({name: value for name, value in query.items() if value and value != "0"})
    return f"{path}?{words}" if words else path


def number_in(call: Call, name: str) -> int:
    """A number of the query that is not negative; 0 for anything else."""
    given = call.query.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0


def granted(call: Call) -> list[str]:
    """The virtual clusters that the caller may submit to, by name; all of them for an administrator."""
    if not call.me.account.admin:
        return sorted(call.me.account.vcs)
    return all_vcs(call.cluster) or sorted(call.me.account.vcs)


def all_vcs(cluster: Cluster) -> list[str]:
    """The virtual clusters of a cluster; empty if they are unknown."""
    return [] if Port.SCHEDULING in cluster.lacks else sorted(vc.name for vc in cluster.picture().vcs)


def tag_path(tag: str) -> str:
    """The list of the jobs with a tag."""
    return f"/jobs?{urlencode({'tag': tag})}"


def path_of(key: str) -> str:
    """The page of a job, from ``user~name``."""
    user, _, name = key.partition("~")
    return f"/jobs/{user}/{name}"
