"""`make messages`: what users read that has no Chinese in locale/zh.po yet, with its place. Exit code 1 if any.

A missing translation falls back to English and blocks no change; a release has none missing where the tests ask for it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from paictl.i18n import catalogue

ROOT = Path(__file__).resolve().parent.parent
CALLS = ("text", "counted", "spoken")
"""Functions whose first argument is a text."""


def missing(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """File, line and English of each text below a folder that the catalogue does not have."""
    entries = catalogue("zh")._entries
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            english = node.args[0].value
            if isinstance(node.func, ast.Attribute) and " " not in str(english):
                continue  # `section.text("name")` reads a key
            if name in CALLS and isinstance(english, str) and english not in entries:
                yield path, node.lineno, english


def main() -> None:
    """Print them, one a line."""
    found = list(missing(ROOT / "paictl"))
    for path, line, english in found:
        print(f"{path.relative_to(ROOT)}:{line}: {english}")
    print(f"{len(found)} texts without Chinese in locale/zh.po", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
