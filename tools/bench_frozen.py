"""What it takes to make a class of five values, and to use it: ours beside other ways, microseconds of processor.

The figures of docs/decisions/frozen.md; `attrs` and `msgspec` are measured where they are installed.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLASS = '''
{decorator}
class Value{bases}:
    """Five fields, three of them with a default."""

    name: str
    vc: str
    devices: int = 1
    labels: tuple = ()
    priority: int = 0
'''
WAYS = {
    "@dataclass(frozen, slots)": ("dataclasses", "@dataclasses.dataclass(frozen=True, slots=True)", ""),
    "@attrs.frozen": ("attrs", "@attrs.frozen", ""),
    "NamedTuple": ("typing", "", "(typing.NamedTuple)"),
    "msgspec.Struct": ("msgspec", "", "(msgspec.Struct, frozen=True)"),
    "@frozen": ("paictl.frozen", "@paictl.frozen.frozen", ""),
}
"""How readers call it → its module, the decorator, the bases."""


def main() -> int:
    """Measure each way and print a table."""
    sys.path.insert(0, str(ROOT))
    print(f"{'way':<28}{'class':>8}{'and used':>10}{'made':>8}{'equal':>8}{'hash':>8}")
    for way, (module, decorator, bases) in WAYS.items():
        if find_spec(module.partition(".")[0]) is None:
            print(f"{way:<28}{'is not installed':>26}")
            continue
        import_module(module)
        known: dict[str, Any] = {module.partition(".")[0]: sys.modules[module.partition(".")[0]]}
        code = compile(CLASS.format(decorator=decorator, bases=bases), way, "exec")

        def make(code: Any = code, known: dict[str, Any] = known) -> Any:
            exec(code, known)  # noqa: S102 - the class above
            return known["Value"]

        def use(make: Callable[[], Any] = make) -> int:
            return hash(make()("a", "b"))

        kind: Any = make()
        one, other = kind("a", "b"), kind("a", "b")
        figures = [_each(make, 300), _each(use, 300)]
        figures += [_each(lambda kind=kind: kind("a", "b", 2, (), 3), 50_000)]
        figures += [_each(lambda one=one, other=other: one == other, 50_000), _each(lambda one=one: hash(one), 50_000)]
        print(f"{way:<28}{figures[0]:>8.0f}{figures[1]:>10.0f}{figures[2]:>8.2f}{figures[3]:>8.2f}{figures[4]:>8.2f}")
    return 0


def _each(work: Callable[[], Any], number: int) -> float:
    """Microseconds of one call, the best of five rounds."""
    return min(timeit.repeat(work, number=number, repeat=5, timer=process_time)) / number * 1e6


if __name__ == "__main__":
    sys.exit(main())
