"""The order of the packages and what each may import, read from the sources."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "paictl"

ORDER: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "frozen",
        "errors resources words",
        "units files places i18n pages",
        "cells",
        "scheduler",
        "workload",
        "config",
        "sim",
        "plan",
        "remote",
        "cluster",
        "service deploy extender",
        "placer",
        "operate",
        "controller server lab",
        "cli",
        "__main__",
    )
)
"""From the bottom up; a package imports only from rows below its own, packages of one row not from each other."""

INNER: dict[str, tuple[frozenset[str], ...]] = {
    package: tuple(frozenset(names.split()) for names in rows)
    for package, rows in {
        "config": ("reading", "models secrets", "linting", "pushing making quotas"),
        "scheduler": (
            "errors journal",
            "buddy views",
            "binding ledger occupancy",
            "doomed request",
            "decision health",
            "groups operations wire",
            "events state",
            "annotate inspection invariants transitions",
            "inspect placement recovery",
            "engine",
            "book snapshot",
            "replay",
            "explain",
        ),
        "sim": (
            "loop dice trace programs pagewords",
            "job",
            "traces cluster knowledge",
            "generate specify run state",
            "rates view timeline occupancy",
            "actions",
            "interface",
            "engine",
            "invariants placement",
            "policies",
            "simulate",
            "metrics",
            "parallel survey promises",
            "compare",
            "report",
            "page what_if",
        ),
    }.items()
}
"""The same inside a package, by the first part of a module's name there."""

THIRD_PARTY: dict[str, frozenset[str]] = {
    "config": frozenset({"yaml", "jsonschema"}),
    "sim": frozenset({"scipy", "highspy", "numpy", "yaml"}),
    "remote": frozenset({"kubernetes", "fabric", "paramiko", "ansible_runner", "urllib3", "orjson"}),
    "cluster": frozenset({"jinja2", "orjson", "yaml"}),
    "deploy": frozenset({"yaml"}),
    "controller": frozenset({"starlette", "uvicorn", "prometheus_client"}),
    "server": frozenset({"starlette", "uvicorn", "orjson", "jinja2", "yaml"}),
    "extender": frozenset({"starlette", "uvicorn", "orjson", "prometheus_client", "yaml"}),
    "placer": frozenset({"starlette"}),
    "cli": frozenset({"typer", "rich", "yaml"}),
}
"""What a package may import beside the standard library; click never, typer vendors it."""

IMPURE = frozenset({"time", "random", "logging", "os"})
"""What the core may not import although it is in the standard library: same state, same decision."""

SEAM = "paictl.cluster.embedded"
NAMES = "paictl.cluster.kubernetes.names"
"""Constants that whoever writes to Kubernetes has to know: the programs that run inside a cluster do."""
ONE_KIND_OF_CLUSTER = {"lab": "embedded.py", "cli": "embedded.py"}
"""Packages that know a cluster through its interface, and the one module of each that knows which kind it is."""

HOMONYMS = frozenset({"Cluster", "Job", "JobView", "Phase", "Preempt"})
"""Names that two public classes share, each for the reason in docs/architecture.md; no module knows both of them."""

MAX_LATE_IMPORTS = 209
"""Imports inside functions of the command line; docs/decisions/late-imports.md has the figures that justify them."""

MAX_LINES = 400


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            if module == "paictl":
                yield from ((node.lineno, f"paictl.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def rank(package: str) -> int:
    return next(index for index, row in enumerate(ORDER) if package in row)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_from_below(path: Path) -> None:
    own = package_of(path)
    if own == "__init__":
        assert not list(imports_of(path)), "paictl/__init__.py must import nothing"
        return
    for line, module in imports_of(path):
        parts = module.split(".")
        if parts[0] != "paictl" or len(parts) < 2 or parts[1] in (own, "__version__"):
            continue
        assert rank(parts[1]) < rank(own), f"{path}:{line}: {own} must not import {parts[1]}"


@pytest.mark.parametrize("package", INNER)
def test_inside_a_package_imports_go_down_as_well(package: str) -> None:
    ranks = {name: index for index, row in enumerate(INNER[package]) for name in row}
    for path in sorted((PACKAGE / package).rglob("*.py")):
        own = path.relative_to(PACKAGE / package).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for line, module in imports_of(path):
            parts = module.split(".")
            if parts[:2] == ["paictl", package] and len(parts) > 2 and parts[2] != own:
                assert ranks[parts[2]] < ranks[own], f"{path}:{line}: {package}.{own} must not import {parts[2]}"


@pytest.mark.parametrize("package", sorted({package_of(path) for path in modules() if path.parent != PACKAGE}))
def test_the_folders_and_modules_of_a_package_form_no_circle(package: str) -> None:
    """Also where no module does: a folder is one thing with one place in the order of its package."""
    graph: dict[str, set[str]] = {}
    for path in sorted((PACKAGE / package).rglob("*.py")):
        own = path.relative_to(PACKAGE / package).parts[0].removesuffix(".py")
        below = (module.split(".") for _, module in imports_of(path))
        graph.setdefault(own, set()).update(
            parts[2] for parts in below if parts[:2] == ["paictl", package] and len(parts) > 2 and parts[2] != own
        )
    TopologicalSorter(graph).prepare()  # raises CycleError with the parts of the circle


def test_the_modules_form_no_circle() -> None:
    names = {_dotted(path): path for path in modules()}
    graph = {name: set(_imported(path, names)) for name, path in names.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the modules of the circle


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, names: Mapping[str, Path]) -> Iterator[str]:
    """Modules of ours that one imports, inside functions and for type checking too; not the packages above them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in names:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & names.keys()
            yield from inner or {node.module}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_third_party_imports_are_on_the_list(path: Path) -> None:
    own = package_of(path)
    for line, module in imports_of(path):
        top = module.split(".")[0]
        if top == "paictl" or top in sys.stdlib_module_names:
            if own in ("cells", "scheduler"):
                assert top not in IMPURE, f"{path}:{line}: the core must not import {top}"
            continue
        assert top in THIRD_PARTY.get(own, frozenset()), f"{path}:{line}: {own} must not import {top}"


def test_only_the_seam_of_a_package_knows_which_kind_of_cluster_it_has() -> None:
    for package, seam in ONE_KIND_OF_CLUSTER.items():
        users = {
            path.name
            for path in (PACKAGE / package).rglob("*.py")
            if any(module == SEAM or module.startswith(f"{SEAM}.") for _, module in imports_of(path))
        }
        assert users == {seam}


def test_only_targets_knows_all_kinds_of_clusters() -> None:
    """Beside the kinds themselves; whoever else wants a cluster asks for one by name. The job controller is a part of
    one kind, in a process of its own."""
    for kind in ("embedded", "kubernetes"):
        seam = f"paictl.cluster.{kind}"
        users = {
            str(path.relative_to(PACKAGE))
            for path in modules()
            if kind != "embedded" or package_of(path) not in ONE_KIND_OF_CLUSTER
            if not path.is_relative_to(PACKAGE / "cluster" / kind)
            if kind != "kubernetes" or package_of(path) != "controller"
            if any(
                (module == seam or module.startswith(f"{seam}.")) and module != NAMES for _, module in imports_of(path)
            )
        }
        assert users == {"cluster/targets.py"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_long_module_gives_its_reason(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count("\n") > MAX_LINES:
        docstring = ast.get_docstring(ast.parse(text)) or ""
        assert "long because" in docstring.lower(), f"{path} has more than {MAX_LINES} lines and no reason for it"


def test_every_package_says_what_it_is_for_and_what_it_must_never_do() -> None:
    for folder in sorted(PACKAGE.iterdir()):
        init = folder / "__init__.py"
        if init.is_file():
            docstring = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
            assert len(docstring) > 80, f"{init} does not say what the package is for"
            assert "must never" in docstring or "must hold no" in docstring, (
                f"{init} does not say what it must never do"
            )


def test_no_two_public_classes_have_one_name_without_a_reason() -> None:
    """A reader who meets a name looks it up once; whoever needs another word finds the field's term for it."""
    assert {name: len(homes) for name, homes in _homonyms().items()} == dict.fromkeys(HOMONYMS, 2)


def test_each_homonym_has_its_reason_in_the_architecture_page() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Homonyms", 1)[1].split("\n## ", 1)[0]
    assert {row.split("`")[1] for row in table.splitlines() if row.startswith("| `")} == HOMONYMS


def test_no_module_knows_two_classes_of_one_name() -> None:
    for name, homes in _homonyms().items():
        for path in modules():
            known = {
                origin
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
                if (origin := _home(f"{node.module}", name, homes)) is not None
            } | ({_dotted(path)} & homes)
            assert len(known) < 2, f"{path} knows {name} of {' and of '.join(sorted(known))}"


def _homonyms() -> dict[str, set[str]]:
    """The modules of each public class that is not the only one of its name."""
    homes: dict[str, set[str]] = {}
    for path in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(_dotted(path))
    return {name: found for name, found in homes.items() if len(found) > 1}


def _home(module: str, name: str, homes: set[str]) -> str | None:
    """Where the class comes from that one module gets from another under its name."""
    while module not in homes:
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
        found = (
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
        )
        below = next(found, None)
        if below is None:
            return None
        module = below
    return module


def test_the_command_line_imports_at_the_top_but_where_it_pays() -> None:
    late = {
        (str(path.relative_to(PACKAGE)), node.lineno)
        for path in sorted((PACKAGE / "cli").rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert 0 < len(late) <= MAX_LATE_IMPORTS
