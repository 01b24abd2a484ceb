"""The order of the packages and what each may import, read from the sources.

Every module is parsed once; each test names all faults that it finds, one a line.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.conftest import ROOT

PACKAGE = ROOT / "paictl"

ORDER: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "frozen",
        "errors resources suggestions",
        "i18n",
        "units files places pages",
        "cells",
        "scheduler",
        "workload",
        "config",
        "sim",
        "plan",
        "remote",
        "cluster",
        "serving",
        "service deploy doors",
        "extender placer",
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
        "cli": (
            "envelope interrupts logfile paragraphs releases segments settings synonyms values",
            "confirmation names tables userconfig",
            "console",
            "command helptext options progress",
            "app completion controller doors",
            "extender run",
            "lab placer",
            "clusters main",
            "accounting cluster config job maintenance reservation scheduler serve sim storage support template "
            "user userkeys",
            "budgets deploy",
            "node",
            "service",
        ),
        "cluster": (
            "doors presets values",
            "access accounts attempts configured conflicts jobwords maintenance picture registry scheduling "
            "storages templates usagebooks",
            "defrag outlook pods reservations timeline whywaits",
            "devices movetotals",
            "figures interface",
            "admission capabilities eventtext jobpages machines page",
            "embedded manifests",
            "kubernetes",
            "exports targets",
        ),
        "deploy": (
            "artifacts benchmark control_plane downloads kubeconfig manifests node_dns storage_class",
            "gather settings",
            "inventory",
            "facts kubeadm versions",
            "preflight",
            "desired",
            "site",
            "archive cluster_settings phase pushing",
            "backup installing joining locking",
            "certs reset",
            "inspection",
            "nodes",
            "addons draining encryption pod_security restore",
            "auditing reconfiguring upgrading verifying",
            "phases registry_checks",
            "apply",
            "partial_runs upgrade",
        ),
        "lab": (
            "cache catalogue folders manifestfile messages pacing promises",
            "commandlog findings manifest progress site visitor",
            "actions glossary initial language requests texts",
            "embedded observation registered",
            "checks slips statements workspace",
            "session",
            "fitting judging",
            "report selftest",
            "classroom",
        ),
        "scheduler": (
            "errors journal",
            "buddy views",
            "binding ledger occupancy",
            "doomed request",
            "decision health",
            "groups operations wire",
            "events state",
            "annotate freecells inspection invariants transitions",
            "inspect placement recovery",
            "repair sparing",
            "engine",
            "book scratch snapshot",
            "replay",
            "record",
            "playback",
            "explain",
            "defrag",
        ),
        "sim": (
            "loop dice trace programs pagewords goodput",
            "job",
            "traces cluster knowledge",
            "generate inflate specify run state failures",
            "rates view timeline occupancy",
            "actions",
            "engine",
            "invariants placement",
            "policies",
            "simulate",
            "metrics checkpoints",
            "parallel survey",
            "promises sizing sweep",
            "plot",
            "compare exports",
            "report",
            "page what_if",
        ),
    }.items()
}
"""The same inside a package, by the first part of a module's name there: a folder is one thing."""

THIRD_PARTY: dict[str, frozenset[str]] = {
    "config": frozenset({"yaml", "jsonschema"}),
    "sim": frozenset({"scipy", "highspy", "numpy", "yaml", "pyarrow"}),
    "remote": frozenset({"kubernetes", "websocket", "fabric", "paramiko", "ansible_runner", "urllib3", "orjson"}),
    "cluster": frozenset({"jinja2", "orjson", "yaml"}),
    "deploy": frozenset({"yaml"}),
    "controller": frozenset({"starlette", "uvicorn", "prometheus_client"}),
    "server": frozenset({"h11", "starlette", "uvicorn", "orjson", "jinja2", "yaml"}),
    "serving": frozenset({"starlette", "uvicorn"}),
    "doors": frozenset({"starlette", "uvicorn", "orjson", "prometheus_client", "yaml"}),
    "extender": frozenset({"starlette", "orjson"}),
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

OPENERS = {
    "embedded": {"cluster/targets.py", "operate/replay.py"},
    "kubernetes": {"cluster/targets.py", "cluster/exports.py"},
}
"""Modules outside the kinds of clusters that know each of them."""

HOMONYMS = frozenset({"Cluster", "Job", "JobView", "Phase", "Preempt"})
"""Names that two public classes share, each for the reason in docs/architecture.md; no module knows both of them."""

MAX_LATE_IMPORTS_OF_CLI = 44
MAX_LATE_IMPORTS = 97
"""Imports inside functions, of the command line and of the whole package; docs/decisions/late-imports.md has the
reason for each."""

MAX_LINES = 600

MAX_BODY = 50
"""Lines of a function beside its parameters and its docstring."""

LONG_BODIES = {
    "deploy/settings.py:settings_of": "a table: each line is one setting and where it is read",
    "doors/core.py:__init__": "a table: the fields of a core, each with what it means",
    "operate/explaining.py:plain": "a table: the sentence and the hint of each situation",
}


@dataclass(frozen=True)
class Module:
    """A module of ours as its source says."""

    path: Path
    tree: ast.Module
    lines: int

    @property
    def name(self) -> str:
        """Its place inside the package, such as `config/reading/yaml.py`."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def dotted(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @property
    def package(self) -> str:
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def part(self) -> str:
        """The folder or module directly below its package."""
        return self.path.relative_to(PACKAGE / self.package).parts[0].removesuffix(".py")

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


@cache
def modules() -> tuple[Module, ...]:
    sources = ((path, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py")))
    return tuple(Module(path, ast.parse(text), text.count("\n")) for path, text in sources)


@cache
def packages() -> tuple[str, ...]:
    """Packages that are folders."""
    return tuple(sorted({module.package for module in modules() if module.path.parent != PACKAGE}))


@cache
def import_nodes(module: Module) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Every import statement, those inside functions too."""
    return tuple(node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom))


@cache
def imports_of(module: Module) -> tuple[tuple[int, str], ...]:
    """(line, dotted module) of every import."""
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    for node in import_nodes(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            assert node.level == 0, f"{module.name}:{node.lineno}: relative import"
            if node.module == "paictl":
                yield from ((node.lineno, f"paictl.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


def refuse(faults: Iterable[str]) -> None:
    """Fail with all faults, one a line."""
    lines = list(faults)
    assert not lines, "\n" + "\n".join(lines)


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_a_package_imports_only_from_below() -> None:
    ranks = {name: index for index, row in enumerate(ORDER) for name in row}
    missing = {module.package for module in modules()} - ranks.keys() - {"__init__"}
    assert not missing, f"ORDER does not name {', '.join(sorted(missing))}"
    refuse(
        f"{module.name}:{line}: {module.package} must not import {imported}"
        for module in modules()
        for line, imported in imports_of(module)
        if (parts := imported.split("."))[0] == "paictl" and len(parts) > 1
        if parts[1] not in (module.package, "__version__")
        if module.package == "__init__" or ranks[parts[1]] >= ranks[module.package]
    )


def test_inside_a_package_imports_go_down_as_well() -> None:
    def faults() -> Iterator[str]:
        for package, rows in INNER.items():
            ranks = {name: index for index, row in enumerate(rows) for name in row}
            for module in modules():
                if module.package != package or module.part == "__init__":
                    continue
                for line, imported in imports_of(module):
                    parts = imported.split(".")
                    if parts[:2] != ["paictl", package] or len(parts) < 3 or parts[2] == module.part:
                        continue
                    if parts[2] not in ranks or module.part not in ranks:
                        yield f"{module.name}:{line}: give {module.part} and {parts[2]} a row in INNER[{package!r}]"
                    elif ranks[parts[2]] >= ranks[module.part]:
                        yield f"{module.name}:{line}: {package}.{module.part} must not import {parts[2]}"

    refuse(faults())


def test_the_folders_and_modules_of_a_package_form_no_cycle() -> None:
    """Also where no module does: a folder is one thing with one place in the order of its package."""
    for package in packages():
        graph: dict[str, set[str]] = {}
        for module in modules():
            if module.package != package:
                continue
            below = (imported.split(".") for _, imported in imports_of(module))
            graph.setdefault(module.part, set()).update(
                parts[2]
                for parts in below
                if parts[:2] == ["paictl", package] and len(parts) > 2 and parts[2] != module.part
            )
        TopologicalSorter(graph).prepare()  # raises CycleError with the parts of the cycle


def test_the_modules_form_no_cycle() -> None:
    names = frozenset(module.dotted for module in modules())
    graph = {module.dotted: set(_imported(module, names)) for module in modules()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the modules of the cycle


def _imported(module: Module, names: frozenset[str]) -> Iterator[str]:
    """Modules of ours that this one imports, for type checking too; not the packages above them."""
    for node in import_nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif node.module is not None and node.module in names:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & names
            yield from inner or {node.module}


def test_third_party_imports_are_on_the_list() -> None:
    def faults() -> Iterator[str]:
        for module in modules():
            allowed = THIRD_PARTY.get(module.package, frozenset())
            for line, imported in imports_of(module):
                top = imported.split(".")[0]
                if top == "paictl" or top in allowed:
                    continue
                if top not in sys.stdlib_module_names:
                    yield f"{module.name}:{line}: {module.package} must not import {top}"
                elif module.package in ("cells", "scheduler") and top in IMPURE:
                    yield f"{module.name}:{line}: the core must not import {top}"

    refuse(faults())


def test_only_the_seam_of_a_package_knows_which_kind_of_cluster_it_has() -> None:
    for package, seam in ONE_KIND_OF_CLUSTER.items():
        users = {
            module.path.name
            for module in modules()
            if module.package == package and any(_within(imported, SEAM) for _, imported in imports_of(module))
        }
        assert users == {seam}


def test_only_targets_and_exports_know_other_kinds_of_clusters() -> None:
    """Beside the kinds themselves; whoever else wants a cluster asks for one by name. The job controller is a part of
    one kind, in a process of its own; what is exported is for one kind, what is replayed of another."""
    exempt = {"embedded": set(ONE_KIND_OF_CLUSTER), "kubernetes": {"controller"}}
    for kind, others in exempt.items():
        users = {
            module.name
            for module in modules()
            if module.package not in others and not module.path.is_relative_to(PACKAGE / "cluster" / kind)
            if any(
                _within(imported, f"paictl.cluster.{kind}") and imported != NAMES for _, imported in imports_of(module)
            )
        }
        assert users == OPENERS[kind]


def test_only_the_commands_of_labs_know_labs() -> None:
    """What other commands have to know of the lab whose shell they run in, `cli/lab` tells them."""
    users = {
        module.name
        for module in modules()
        if module.package != "lab" and not module.path.is_relative_to(PACKAGE / "cli" / "lab")
        if any(_within(imported, "paictl.lab") for _, imported in imports_of(module))
    }
    assert not users


def test_a_long_module_gives_its_reason() -> None:
    refuse(
        f"{module.name}: {module.lines} lines (more than {MAX_LINES}), and no 'long because' in its docstring"
        for module in modules()
        if module.lines > MAX_LINES and "long because" not in module.docstring.lower()
    )


def test_a_long_function_gives_its_reason() -> None:
    long = {
        f"{module.name}:{function.name}": lines
        for module in modules()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := _lines_of_body(function)) > MAX_BODY
    }
    refuse(
        f"{name}: {lines} lines (more than {MAX_BODY}); split it, or add it to LONG_BODIES with the reason"
        for name, lines in long.items()
        if name not in LONG_BODIES
    )
    refuse(f"{name} is no longer long: remove it from LONG_BODIES" for name in LONG_BODIES.keys() - long.keys())


def _lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if ast.get_docstring(function) is not None and len(body) > 1:
        body = body[1:]
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def test_every_package_says_what_it_is_for_and_what_it_must_never_do() -> None:
    for module in modules():
        if module.name != f"{module.package}/__init__.py":
            continue
        assert len(module.docstring) > 80, f"{module.name} does not say what the package is for"
        limits = "must never" in module.docstring or "must hold no" in module.docstring
        assert limits, f"{module.name} does not say what it must never do"


def test_no_two_public_classes_have_one_name_without_a_reason() -> None:
    """A reader who meets a name looks it up once; whoever needs another word finds the field's term for it."""
    assert {name: len(homes) for name, homes in _homonyms().items()} == dict.fromkeys(HOMONYMS, 2)
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Homonyms", 1)[1].split("\n## ", 1)[0]
    assert {row.split("`")[1] for row in table.splitlines() if row.startswith("| `")} == HOMONYMS


def test_no_module_knows_two_classes_of_one_name() -> None:
    by_name = {module.dotted: module for module in modules()}

    def faults() -> Iterator[str]:
        for name, homes in _homonyms().items():
            for module in modules():
                known = {
                    origin
                    for node in import_nodes(module)
                    if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
                    if (origin := _home(f"{node.module}", name, homes, by_name)) is not None
                } | ({module.dotted} & homes)
                if len(known) > 1:
                    yield f"{module.name} knows {name} of {' and of '.join(sorted(known))}"

    refuse(faults())


@cache
def _homonyms() -> dict[str, set[str]]:
    """The modules of each public class that is not the only one of its name."""
    homes: dict[str, set[str]] = {}
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(module.dotted)
    return {name: among for name, among in homes.items() if len(among) > 1}


def _home(importer: str, name: str, homes: set[str], by_name: Mapping[str, Module]) -> str | None:
    """Where the class comes from that one module gets from another under its name."""
    while importer not in homes:
        if importer not in by_name:
            return None
        sources = (
            node.module
            for node in import_nodes(by_name[importer])
            if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
        )
        below = next(sources, None)
        if below is None:
            return None
        importer = below
    return importer


def test_imports_stand_at_the_top_but_where_a_late_one_pays() -> None:
    late = {
        (module.name, node.lineno)
        for module in modules()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    of_cli = {name for name in late if name[0].startswith("cli/")}
    assert 0 < len(of_cli) <= MAX_LATE_IMPORTS_OF_CLI
    assert 0 < len(late) <= MAX_LATE_IMPORTS
