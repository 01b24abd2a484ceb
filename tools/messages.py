"""`make messages`: what users read that has no Chinese in locale/zh.po yet, with its place. Exit code 1 if any.

A missing translation falls back to English and blocks no change; a release has none missing where the tests ask for it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from paictl.config.linting.rules import all_rules
from paictl.i18n import catalogue

ROOT = Path(__file__).resolve().parent.parent
CALLS = ("text", "counted", "localized")
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


SPEAKS = ("cli", "cluster/embedded", "config", "deploy", "lab", "operate", "plan", "service")
"""Packages below paictl/ in which whatever an error or the console says is read by people."""
SAY = frozenset({"confirm", "error", "info", "outcome", "warning"})
"""Functions of the console that take a message."""
INTERNAL = frozenset({"AssertionError", "InvariantError", "KeyError", "TypeError", "ValueError"})
"""Errors that no person reads."""
COMMAND = re.compile(r"(paictl|kubectl) |https://|-|\s|[\w.\[\]{}-]*$")
"""How a hint begins that is a command line, an address, an example, or all of a word or path: it has no translation."""


def bare(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """File, line and words of each message below a folder that is English for good: an f-string without `text(...)`, or
    a plain text that the catalogue does not have."""
    entries = catalogue("zh")._entries
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign):
                yield from ((path, line, words) for line, words in _english(_hint(node), entries))
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name not in SAY and (name in INTERNAL or not name.endswith("Error")):
                continue
            told = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("message", "hint"))]
            yield from ((path, line, words) for line, words in _english(told, entries))


def _english(parts: Iterable[ast.expr], entries: Container[str]) -> Iterator[tuple[int, str]]:
    """Line and source of each text that these expressions may be and the catalogue does not have."""
    for words in (choice for part in parts for choice in _choices(part)):
        known = isinstance(words, ast.Constant) and words.value in entries
        literal = _literal(words)
        if not known and len(re.findall(r"[A-Za-z]{2,}", literal)) > 1 and not COMMAND.match(literal):
            yield words.lineno, ast.unparse(words)


def _hint(node: ast.Assign) -> list[ast.expr]:
    """What is assigned to the variable `hint`, which an error takes later."""
    return [node.value] if any(isinstance(to, ast.Name) and to.id == "hint" for to in node.targets) else []


def _choices(node: ast.expr) -> Iterator[ast.expr]:
    """The texts that an expression may be."""
    match node:
        case ast.IfExp():
            yield from (*_choices(node.body), *_choices(node.orelse))
        case ast.BoolOp():
            yield from (one for value in node.values for one in _choices(value))
        case ast.Constant(value=str()) | ast.JoinedStr():
            yield node


def _literal(node: ast.expr) -> str:
    """The words of a text, with braces for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else ""


def manuals() -> Iterator[tuple[Path, int, str]]:
    """File, line and words of what `config rules` and `config explain` say of a rule without Chinese."""
    entries = catalogue("zh")._entries
    for rule in all_rules():
        code = rule.check.__code__
        for words in (rule.manual.summary, rule.manual.why):
            if words not in entries:
                yield Path(code.co_filename), code.co_firstlineno, words


def main() -> None:
    """Print them, one a line."""
    found = [*missing(ROOT / "paictl"), *(one for name in SPEAKS for one in bare(ROOT / "paictl" / name)), *manuals()]
    for path, line, english in found:
        print(f"{path.relative_to(ROOT)}:{line}: {english}")
    print(f"{len(found)} texts without Chinese in locale/zh.po", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
