"""External policies: a class in a Python file, or an entry point of an installed package.

`my.py:Longest` names a class in a file, `my.py` the only policy of the file; packages list theirs under the entry point
group `paictl.policies`. A file is executed with the rights of the user who starts the simulation.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from paictl import i18n
from paictl.i18n import did_you_mean, listed
from paictl.sim.policies.base import Policy
from paictl.sim.policies.parameters import ParameterError

GROUP: Final = "paictl.policies"
"""The entry point group in which packages list their policies."""
SUFFIX: Final = ".py"


def is_file(name: str) -> bool:
    """Whether the name of a policy is that of a Python file."""
    return name.endswith(SUFFIX)


def split_file(text: str) -> tuple[str, str, str]:
    """(file, class, parameters) of `my.py:Class:key=value,…`, where class and parameters may be left out."""
    path, _, rest = text.partition(":")
    first, colon, parameters = rest.partition(":")
    if "=" in first or not first:
        return path, "", rest
    return path, first, parameters if colon else ""


@cache
def from_file(path: str, name: str) -> type[Policy]:
    """The policy `name` of a file, or its only policy if `name` is empty. Raises `ParameterError`."""
    where = f"policy {path}"
    classes = {kind.__name__: kind for kind in _policies_of(_module(Path(path), where))}
    if not classes:
        raise ParameterError(
            i18n.text("the file defines no policy"),
            where=where,
            hint=i18n.text("write a class that inherits paictl.sim.policies.base.Policy: docs/adding-a-policy.md"),
        )
    if not name and len(classes) > 1:
        names = listed(classes, 20)
        raise ParameterError(
            i18n.text("the file defines several policies: {names}", names=names),
            where=where,
            hint=i18n.text("name one: {path}:{name}", path=path, name=min(classes)),
        )
    if name and name not in classes:
        raise ParameterError(
            i18n.text("the file defines no policy {name!r}", name=name),
            where=where,
            hint=did_you_mean(name, classes) or i18n.text("one of: {names}", names=listed(classes, 20)),
        )
    kind = classes[name] if name else next(iter(classes.values()))
    check(kind, where)
    return kind


def installed() -> Mapping[str, EntryPoint]:
    """The entry points of installed packages, by the name of the policy."""
    return {point.name: point for point in entry_points(group=GROUP)}


def from_entry_point(point: EntryPoint) -> type[Policy]:
    """The class behind an entry point. Raises `ParameterError`."""
    where = f"policy {point.name}"
    try:
        kind = point.load()
    except Exception as error:
        raise ParameterError(
            i18n.text("{value} of an installed package cannot be loaded: {error}", value=point.value, error=error),
            where=where,
            hint=i18n.text("reinstall or remove the package that lists it under {group}", group=GROUP),
        ) from error
    if not (inspect.isclass(kind) and issubclass(kind, Policy)):
        raise ParameterError(i18n.text("{value} is not a policy", value=point.value), where=where)
    check(kind, where)
    return kind


def place_of(kind: type[Policy], error: Exception) -> str | None:
    """`file:line` at which an external policy failed in a decision; None for our own policies."""
    if kind.__module__.startswith("paictl."):
        return None
    path = getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__
    return f"{path}:{_line(error, Path(path))}"


def _module(path: Path, where: str) -> ModuleType:
    """The file as a module of its own; modules beside it can be imported as in a script."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ParameterError(
            i18n.text("cannot read the file: {error}", error=error.strerror),
            where=where,
            hint="check the path: --policy FILE.py, or FILE.py:CLASS",
        ) from error
    module = ModuleType(f"paictl_policy_{path.stem}")
    module.__file__ = str(path)
    folder = str(path.resolve().parent)
    sys.modules[module.__name__] = module  # dataclasses look up the module of a class
    sys.path.insert(0, folder)
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - what the user asks for
    except (Exception, SystemExit) as error:
        raise ParameterError(
            i18n.text("the file does not load: {error}", error=f"{type(error).__name__}: {error}"),
            where=f"{path}:{_line(error, path)}",
            hint=_repair(error, path),
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _repair(error: BaseException, path: Path) -> str:
    """What to do about a file that does not load."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return i18n.text("install {module} for {python}", module=error.name.partition(".")[0], python=sys.executable)
    return i18n.text("correct the file; {python} {path} shows the whole traceback", python=sys.executable, path=path)


def _line(error: BaseException, path: Path) -> int:
    """The line of the file at which it failed."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return frames[-1] or 1 if frames else 1


def _policies_of(module: ModuleType) -> list[type[Policy]]:
    """The concrete policies that the file defines itself, not those that it imports."""
    return [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Policy) and kind.__module__ == module.__name__
        if not inspect.isabstract(kind)
    ]


def check(kind: type[Policy], where: str) -> None:
    """Check that a class sets `id`, `title` and `paper`. Raises `ParameterError`."""
    missing = [name for name in ("id", "title", "paper") if not isinstance(getattr(kind, name, None), str)]
    if missing:
        raise ParameterError(
            i18n.text("class {name} does not set {missing}", name=kind.__name__, missing=listed(missing, 3)),
            where=where,
            hint=i18n.text("set it in the class body: docs/adding-a-policy.md"),
        )
