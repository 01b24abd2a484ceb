#!/usr/bin/env python3
"""The trial of a compiled core: build paictl with mypyc, and run the same tests on both.

Everything happens in ``build/wheel`` from a copy of the tree: a wheel of the sources as they are; the same sources with
what mypyc needs changed (`compilable`), compiled and packed as ``dist/paictl-*-cp311-cp311-*.whl``; each wheel in a
virtual environment of its own; the tests of the core against what is installed there, with no package beside them that
they could take instead. It needs git, gcc, Python's headers and packages from PyPI. ``tools/bench_compiled.py`` then
measures both; what it brought: ``docs/decisions/compiled-core.md``.

The exit code is 1 if it cannot be built, or if other tests fail than `KNOWN`.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
WORK: Final = ROOT / "build" / "wheel"
SOURCE: Final = WORK / "source"
CHECK: Final = WORK / "check"
"""The tree without the package: tests run here, and find the one that is installed."""
BUILDERS: Final = ("mypy[mypyc]==2.4.1", "setuptools==80.9.0", "hatchling==1.33.0")
CORE: Final = ("paictl/cells/*.py", "paictl/scheduler/*.py", "paictl/scheduler/placement/*.py")
SIM: Final = ("engine", "loop", "occupancy", "state", "timeline")
PYTHON_ONLY: Final = {"__init__", "tree", "inspect", "invariants", "operations", "replay", "snapshot"}
"""Not compiled: a generic dataclass in `tree`, what only people and tests ask; nor `sim/rates`, base of policies'."""
TESTS: Final = ("tests/unit/scheduler", "tests/unit/cells", "tests/unit/sim", "tests/golden")
KNOWN: Final = {
    "test_doomed.py::test_a_burst_of_reports_is_settled_once",
    "test_doomed.py::test_a_node_that_flaps_where_healthy_ones_are_enough_costs_nothing",
    "test_engine.py::test_an_invariant_error_stops_the_engine",
    "test_engine.py::test_names_are_made_a_set_only_where_they_count_and_once_for_the_same_list",
    "test_replay.py::test_a_state_that_contradicts_itself_can_be_dumped_and_taken_up",
    "test_replay.py::test_the_command_writes_a_dump_when_an_invariant_breaks_and_can_load_it",
    "test_replay.py::test_the_order_of_a_restart_is_followed",
    "test_replay_fuzz.py::test_every_pod_can_be_explained_after_any_operations",
    "test_snapshot.py::test_an_engine_has_no_other_state",
    "test_snapshot.py::test_every_mutable_container_of_the_state_is_listed",
}
"""Tests of the scheduler that fail on compiled modules; why, is in the decision."""
COMPILE: Final = """\
import sys
from setuptools import setup
from mypyc.build import mypycify

options = {"separate": True, "opt_level": "2", "debug_level": "0"}
modules = mypycify(["--ignore-missing-imports", *sys.argv.pop().split()], **options)
setup(name="core", packages=[], ext_modules=modules)
"""
HOOK: Final = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data.update(pure_python=False, infer_tag=True)
"""


def main() -> None:
    """Build and test."""
    build()
    sys.exit(not test("pure", ".py", set()) & test("compiled", ".so", KNOWN))


def run(*command: str | Path, where: Path = ROOT, may_fail: bool = False) -> str:
    """What a command printed; if it failed, that ends the trial."""
    done = subprocess.run(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode and not may_fail:
        sys.exit(f"{done.stdout}\nmake wheel: it ended with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def environment(name: str, *packages: str | Path) -> Path:
    """The Python of a new virtual environment with these packages."""
    run(sys.executable, "-m", "venv", "--clear", WORK / name)
    install(python_of(name), *packages)
    return python_of(name)


def python_of(name: str) -> Path:
    """The Python of an environment."""
    return WORK / name / "bin" / "python"


def install(python: Path, *packages: str | Path) -> None:
    """Put packages into an environment."""
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)


def build() -> None:
    """Both wheels, each installed in an environment of its own."""
    if not (shutil.which("gcc") and Path(sysconfig.get_path("include"), "Python.h").is_file()):
        sys.exit("make wheel: no gcc or no Python.h (Debian: apt-get install gcc python3-dev)")
    shutil.rmtree(WORK, ignore_errors=True)
    for name in filter(None, run("git", "ls-files", "-zco", "--exclude-standard").split("\0")):
        for folder in (SOURCE,) if name.startswith("paictl/") else (SOURCE, CHECK):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
    shared = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared")).resolve()
    if shared.is_dir():
        (WORK / "shared").symlink_to(shared)
    python = environment("builders", *BUILDERS)
    pure = pack(python, "pure", WORK / "pure.dist")
    before = os.times()
    modules = compiled_modules()
    for path in SOURCE.glob("paictl/**/*.py"):  # all, for what is not compiled may be an heir of what is
        path.write_text(standard(path.read_text(encoding="utf-8")), encoding="utf-8")
    for module in modules:
        path = SOURCE / module
        path.write_text(compilable(path.read_text(encoding="utf-8")), encoding="utf-8")
    run(python, "-c", COMPILE, "build_ext", "--inplace", " ".join(modules), where=SOURCE)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    (SOURCE / "hatch_build.py").write_text(HOOK)
    with (SOURCE / "pyproject.toml").open("a") as project:
        project.write("\n[tool.hatch.build.targets.wheel.hooks.custom]\n")
    wheel = pack(python, "compiled", ROOT / "dist")
    more = (wheel.stat().st_size - pure.stat().st_size) / 2**20
    print(f"{wheel}: {len(modules)} modules compiled, {spent:.0f} s of processor time, {more:.1f} MB more", flush=True)


def compiled_modules() -> list[str]:
    """Paths of the modules that are compiled, from the root of the copy."""
    found = sorted(path for pattern in CORE for path in SOURCE.glob(pattern) if path.stem not in PYTHON_ONLY)
    return [str(path.relative_to(SOURCE)) for path in found] + [f"paictl/sim/{name}.py" for name in SIM]


def standard(text: str) -> str:
    """A source whose values are made by the standard library's decorator, the only one that mypyc knows."""
    text = re.sub("from paictl.frozen import frozen.*", "from dataclasses import dataclass", text)
    text = text.replace("@frozen_caching\n", "@dataclass(frozen=True)\n")
    return text.replace("@frozen\n", "@dataclass(frozen=True, slots=True)\n")


def compilable(text: str) -> str:
    """A source as mypyc can take it: dataclasses without `slots`, and what is imported for types imported for real."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1] = "\n"
            lines[node.lineno : last] = [line.removeprefix("    ") for line in lines[node.lineno : last]]
        for call in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "dataclass":
                assert call.lineno == call.end_lineno, "a decorator on several lines"
                call.keywords = [word for word in call.keywords if word.arg != "slots"]
                lines[call.lineno - 1] = f"@{ast.unparse(call)}\n"
    return "".join(lines)


def pack(python: Path, name: str, target: Path) -> Path:
    """The wheel of the copy, and an environment with the locked packages and it."""
    shutil.rmtree(target, ignore_errors=True)
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", target, where=SOURCE)
    (wheel,) = target.glob("*.whl")
    install(environment(name, "--require-hashes", "-r", ROOT / "requirements" / "dev.lock"), "--no-deps", wheel)
    return wheel


def test(name: str, ending: str, known: set[str]) -> bool:
    """Run the tests against an installed wheel, and say how many passed and which did not; whether only those known."""
    names = [module.removesuffix(".py").replace("/", ".") for module in compiled_modules()]
    script = "import sys, importlib as i; print(*(i.import_module(name).__file__ for name in sys.argv[1:]), sep='\\n')"
    for file in run(python_of(name), "-c", script, *names, where=CHECK).splitlines():
        if not (file.endswith(ending) and file.startswith(str(WORK / name))):
            sys.exit(f"make wheel: in the environment {name} a module of the core is {file}")
    (packages,) = (WORK / name / "lib").glob("python*/site-packages")  # for a test that asks another Python
    settings = ("CI=1", f"PYTHONPATH={packages}")  # CI: the same examples for both
    command = ("env", *settings, python_of(name), "-m", "pytest", "-q", "-n", "0", *TESTS)
    found = run(*command, where=CHECK, may_fail=True)
    (WORK / f"{name}.log").write_text(found, encoding="utf-8")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", found, re.MULTILINE)
    new = sorted(one for one in failed if one.rpartition("/")[2].partition("[")[0] not in known)
    print(f"{name}: {len(names)} modules of the core are {ending} files of the wheel; {found.splitlines()[-1]}")
    print("".join(f"  failed: {one}\n" for one in new), end="", flush=True)
    if len(new) < len(failed):
        print(f"  {len(failed) - len(new)} failed as is known (docs/decisions/compiled-core.md)", flush=True)
    return not new and " passed" in found.splitlines()[-1]


if __name__ == "__main__":
    main()
