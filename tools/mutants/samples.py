"""Which mutants there are, and which of them are tried."""

from __future__ import annotations

import ast
import difflib
import random
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT: Final = Path(__file__).resolve().parents[2]
TREE: Final = ROOT / "build" / "mutants" / "tree"
"""The copy in which code is broken: programs that a test starts see it, too."""
ROOMS: Final = {
    "scheduler": (("scheduler",), ("scheduler",)),
    "doors": (("doors", "extender", "placer"), ("extender", "placer")),
    "controller": (("controller",), ("controller",)),
    "cluster/kubernetes": (("cluster/kubernetes",), ("cluster", "controller", "extender")),
    "remote": (("remote",), ("remote",)),
    "deploy": (("deploy",), ("deploy",)),
}
"""Per room: its packages, and the folders of tests/unit whose tests are tried first."""
SWAPS: Final = (
    *("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Div_Mul", "Mod_FloorDiv"),
    *("BitOr_BitAnd", "BitAnd_BitOr", "Is_IsNot", "IsNot_Is"),
)
"""Of the operators for `+ - * / // % | & is`, these: the others fail by type wherever they run, or change nothing."""
Mutant = dict[str, Any]
"""room, module, line, operator, occurrence, diff; tried: verdict, by (a test), tests (number), seconds."""


def copy_tree() -> None:
    """Bring what Git knows or would add into `TREE`; a file that is the same keeps its time and what was compiled."""
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        source, target = ROOT / name, TREE / name
        if source.is_file() and (not target.exists() or source.read_bytes() != target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def places(module: str) -> Iterator[tuple[tuple[int, int], str, int]]:
    """Each place where an operator changes something: (line, column), operator, which occurrence of it."""
    nodes = list(ast_nodes(get_ast((TREE / module).read_text())))
    for name in operator_names():
        swap = name.rpartition("Operator_")[2]
        if "Variable" in name or (("Binary" in name or "Is" in swap) and swap not in SWAPS):
            continue  # cosmic-ray's operators on variables want to be told which
        operator = get_operator(name)()
        positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
        yield from ((start, name, number) for number, start in enumerate(positions))


def meaning(code: str) -> str:
    """What Python runs: the code without annotations, which nothing evaluates."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(0)
    return ast.unparse(tree)


def mutated(mutant: Mutant) -> str | None:
    """The module's text with this mutant, or None if Python runs the same, or nothing."""
    before = (TREE / mutant["module"]).read_text()
    try:
        after: str | None = mutate_code(before, get_operator(mutant["operator"])(), mutant["occurrence"])
        return after if after and meaning(after) != meaning(before) else None
    except (SyntaxError, AttributeError):  # it does not know ``except a.b``
        return None


def difference(mutant: Mutant, after: str) -> str:
    """The lines that change, one with `-` and one with `+` before it."""
    before = (TREE / mutant["module"]).read_text()
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    return "\n".join(f"{line[0]} {line[1:].strip()}" for line in lines[3:])


def sample(room: str, size: int, seed: int) -> list[Mutant]:
    """`size` places of a room, each with one of the mutants that are possible there.

    Places are drawn, not mutants: else a comparison with its five replacements would count five times as much as a
    `not`. A larger size draws the same ones first.
    """
    choices: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = defaultdict(list)
    for package in ROOMS[room][0]:
        for path in sorted((TREE / "paictl" / package).rglob("*.py")):
            module = str(path.relative_to(TREE))
            for start, name, number in places(module):
                choices[module, start].append((name, number))
    drawn = random.Random(f"{seed}/{room}")  # noqa: S311 - no secret
    mutants: list[Mutant] = []
    for module, start in drawn.sample(sorted(choices), len(choices)):
        name, number = drawn.choice(choices[module, start])
        mutant = {"room": room, "module": module, "line": start[0], "operator": name, "occurrence": number}
        if len(mutants) == size:
            break
        if (after := mutated(mutant)) is not None:
            mutants.append({**mutant, "diff": difference(mutant, after)})
    print(f"{room}: {len(mutants)} of {len(choices)} places", flush=True)
    return mutants
