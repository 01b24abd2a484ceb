"""Options that several commands share: the same word means the same everywhere."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from paictl.cli.console import Output, take_form
from paictl.config.reading.kinds import FileKind
from paictl.errors import PaictlError
from paictl.i18n import text

KINDS = tuple(kind.value for kind in FileKind if kind is not FileKind.UNKNOWN)
"""What ``--kind`` takes."""

KIND_ALIASES = {
    "hivedscheduler": "hived",
    "services-configuration": "services",
    "settings": "config",
    "master": "master-csv",
    "worker": "worker-csv",
}
"""Other words that ``--kind`` takes without listing them: what OpenPAI calls the files."""


def kind_named(word: str) -> FileKind:
    """The kind of file with a name, or whose file is called so.

    Raises `PaictlError` with the nearest name, or all of them, otherwise.
    """
    stem = word.lower().removesuffix(".yaml").removesuffix(".yml").removesuffix(".csv")
    known = KIND_ALIASES.get(stem, stem)
    if known in KINDS:
        return FileKind(known)
    raise PaictlError(text("no file kind {word!r}", word=word), hint=meant(word, KINDS))


def meant(word: str, names: tuple[str, ...]) -> str:
    """The hint for an unknown name: the nearest known name, or all of them."""
    near = difflib.get_close_matches(word, names, 1)
    if near:
        return text("did you mean {near!r}?", near=near[0])
    return text("one of: {known}", known=", ".join(names))


def rule_ids() -> list[str]:
    """The ids of all rules, for completion."""
    from paictl.config.linting.rules import all_rules

    return [rule.id for rule in all_rules()]


def address(word: str, *, least: int = 1) -> tuple[str, int]:
    """Host and port of ``--listen HOST:PORT``; all addresses for an empty host. Raises `PaictlError`.

    `least` is the lowest port: 0 where the system may choose a free one.
    """
    host, _, port = word.rpartition(":")
    if not (port.isascii() and port.isdigit()) or not least <= int(port) < 1 << 16:
        raise PaictlError(text("--listen {word!r}: expected HOST:PORT", word=word))
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - all addresses is what an empty host means


def namespaced(option: str, word: str) -> tuple[str, str]:
    """Namespace and name of an option that takes ``NAMESPACE/NAME``. Raises `PaictlError`."""
    space, _, name = word.partition("/")
    if not space or not name:
        raise PaictlError(text("{option} {word!r}: expected NAMESPACE/NAME", option=option, word=word))
    return space, name


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", callback=take_form, help="Output format.", show_default=False)
]

BreakLock = Annotated[
    bool, typer.Option("--break-lock", help="Replace the lock of an abandoned run on another machine.")
]

WatchTimeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="With --watch: end after this time, with exit code 0."),
]
"""How long something is watched; None for until Ctrl-C."""


def kind_option(text: str) -> Any:
    """The option ``--kind``; `text` says what the kind is for."""
    return typer.Option(
        "--kind",
        metavar="KIND",
        parser=kind_named,
        autocompletion=lambda: list(KINDS),
        help=f"{text}: {', '.join(KINDS)}.",
    )


KindOption = Annotated[FileKind | None, kind_option("Kind of the files, where name and content do not tell")]
