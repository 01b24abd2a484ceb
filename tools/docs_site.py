"""The sources of the documentation site: docs/, the labs, and a reference generated from the code.

`python tools/docs_site.py DIR` writes DIR/docs and DIR/mkdocs.yml, which `make docs` then gives to MkDocs. Commands
come from the command tree, rules from their docstrings, configuration from the JSON Schemas: none can lag behind.
A page NAME.zh.md is the Chinese of NAME.md (mkdocs-static-i18n); where there is none, readers get the English page.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from paictl.cli.app import app
from paictl.cli.helptext import argument_word, is_example, paragraphs
from paictl.config.linting.rules import all_rules
from paictl.i18n import in_language
from paictl.resources import resource_folder

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {"": "en", ".zh": "zh"}
"""The language of a page by its suffix."""
WORDS = {"Argument": "参数", "Option": "选项", "Meaning": "含义"}
IN_REPOSITORY = re.compile(r"\]\(\.\./(?!README\.md|labs/)([^)]+)\)")


CONTAINERS = {"array": ("list", "items"), "object": ("mapping", "additionalProperties")}
"""What JSON Schema's containers are called here, and the key that describes what they hold."""
EVERYWHERE = frozenset({"verbose", "quiet", "debug", "no_color", "no_input", "help"})
"""Options that every command has; the first page of the reference lists them."""
SECTIONS = ("Get started", "How to", "Reference", "Explanation")
"""Of the site, by the headings of docs/README.md, whose tables say which page belongs where."""


def main() -> None:
    """Write the pages and the site's configuration to the folder that is named."""
    (folder,) = map(Path, sys.argv[1:])
    target = folder / "docs"
    shutil.rmtree(target, ignore_errors=True)
    copy_docs(target)
    copy_labs(target / "labs")
    write_commands(target / "reference" / "commands")
    write_rules(target / "reference" / "rules.md")
    write_configuration(target / "reference" / "configuration")
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "hooks": [str(ROOT / "tools" / "docs_hook.py")],
        "docs_dir": "docs",
        "site_dir": "site",
        "nav": list(navigation(target)),
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def navigation(target: Path) -> Iterator[dict[str, list[Any]]]:
    """What the site's menu shows, in the order of docs/README.md."""
    contents = (target / "contents.md").read_text(encoding="utf-8")
    for section in SECTIONS:
        part = contents.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
        pages: list[Any] = list(dict.fromkeys(re.findall(r"\]\(([\w./-]+\.md)\)", part)))
        if section == "Get started":
            pages.remove("labs.md")
            pages.append({"Labs": ["labs.md", *pages_of(target, "labs")]})
        if section == "Reference":
            pages[:0] = [
                {"Commands": pages_of(target, "reference/commands")},
                {"Configuration files": pages_of(target, "reference/configuration")},
                "reference/rules.md",
            ]
            pages += ["changelog.md", "license.md"]
        if section == "Explanation":
            pages[-1:] = [{"Decisions": pages_of(target, "decisions", "README.md")}]
        yield {section: ["contents.md"] * (section == "Get started") + pages}


def pages_of(target: Path, folder: str, first: str = "index.md") -> list[str]:
    """The pages of a folder in English, its own first page first."""
    pages = sorted(path for path in (target / folder).glob("*.md") if not path.name.endswith(".zh.md"))
    pages.sort(key=lambda path: path.name != first)
    return [path.relative_to(target).as_posix() for path in pages]


# --- what is written by hand


def copy_docs(target: Path) -> None:
    """docs/ as it is; README is the first page, and the index of docs becomes its own."""
    shutil.copytree(ROOT / "docs", target)
    (target / "README.md").rename(target / "contents.md")
    for page in target.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        text = text.replace("](../README.md)", "](index.md)").replace("](../labs/README.md)", "](labs/index.md)")
        page.write_text(IN_REPOSITORY.sub(r"](https://example.org/paictl/\1)", text), encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = readme.replace("](docs/README.md)", "](contents.md)").replace("](docs/", "](")
    license_text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    (target / "license.md").write_text(f"# License\n\n{license_text}", encoding="utf-8")
    (target / "index.md").write_text(readme.replace("](LICENSE)", "](license.md)"), encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (target / "changelog.md").write_text(changes, encoding="utf-8")


def copy_labs(target: Path) -> None:
    """One page a lab and language."""
    target.mkdir(parents=True)
    for folder in sorted(path.parent for path in (ROOT / "labs").glob("*/lab.yaml")):
        for suffix, language in LANGUAGES.items():
            source = folder / f"lab.{language}.md"
            if source.is_file():
                shutil.copy(source, target / f"{folder.name}{suffix}.md")
    shutil.copy(ROOT / "labs" / "README.md", target / "index.md")


# --- commands


def write_commands(target: Path) -> None:
    """One page a command group, and one for the commands at the top."""
    target.mkdir(parents=True)
    root = app.built(None)
    context = typer.Context(root, info_name="paictl")
    for suffix, language in LANGUAGES.items():
        single = list(parameters(root, context, language, "Options", everywhere=True))
        for name, command in children(root, context):
            if is_group(command):
                inside = child_of(command, name, context)
                text = f"# paictl {name}\n\n" + "\n".join(command_parts(command, inside, language, 2))
                (target / f"{name}{suffix}.md").write_text(text + "\n", encoding="utf-8")
            else:
                single += [
                    f"## paictl {name}\n",
                    *command_parts(command, child_of(command, name, context), language, 3),
                ]
        heading = "# paictl\n\n" + "\n".join(single)
        (target / f"index{suffix}.md").write_text(heading + "\n", encoding="utf-8")


def children(group: Any, context: Any) -> Iterator[tuple[str, Any]]:
    """The visible commands of a group."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield name, command


def is_group(command: Any) -> bool:
    """Whether a command has commands of its own."""
    return hasattr(command, "list_commands")


def child_of(command: Any, name: str, context: Any) -> Any:
    """The context in which a command describes itself by its full path."""
    return typer.Context(command, info_name=name, parent=context)


def command_parts(command: Any, context: Any, language: str, level: int) -> Iterator[str]:
    """A command as Markdown: what it does, examples, arguments, options; then the commands of a group."""
    for paragraph in paragraphs(command.help or ""):
        yield in_language(paragraph, language) + "\n"
    if not is_group(command):
        yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    examples = [line for line in lines if is_example(line)]
    if examples:
        yield "```sh\n" + "\n".join(examples) + "\n```\n"
    for kind in ("Arguments", "Options"):
        yield from parameters(command, context, language, kind)
    for paragraph in paragraphs("\n".join(line for line in lines if not is_example(line))):
        yield in_language(paragraph, language) + "\n"
    if is_group(command):
        for name, inner in children(command, context):
            yield f"{'#' * level} {context.command_path} {name}\n"
            yield from command_parts(inner, child_of(inner, name, context), language, level + 1)


def parameters(command: Any, context: Any, language: str, kind: str, *, everywhere: bool = False) -> Iterator[str]:
    """A table of arguments or options; of those that every command has, or of the others."""
    rows = []
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if (
            record is None
            or (param.name in EVERYWHERE) is not everywhere
            or (param.param_type_name == "argument") != (kind == "Arguments")
        ):
            continue
        name = argument_word(param) if kind == "Arguments" else record[0]
        own = param.help or ""
        added = "" if kind == "Arguments" else record[1].removeprefix(own)
        rows.append(f"| `{name}` | {cell(in_language(' '.join(own.split()), language) + added)} |")
    if rows:
        yield (
            f"| {word_of(kind[:-1], language)} | {word_of('Meaning', language)} |\n| --- | --- |\n"
            + "\n".join(rows)
            + "\n"
        )


def word_of(word: str, language: str) -> str:
    """A heading of a table in a language."""
    return WORDS[word] if language == "zh" else word


def cell(text: str) -> str:
    """A text as a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


# --- rules


def write_rules(target: Path) -> None:
    """All rules of `config validate`, each with its reason and examples."""
    parts = [
        "# Validation rules\n",
        "`paictl config validate` checks these rules; `--select` and `--ignore` take ids.\n",
    ]
    for rule in sorted(all_rules(), key=lambda rule: rule.id):
        manual = rule.manual
        parts.append(f"## {rule.id} {rule.name}\n\n*{rule.severity.name.lower()}.* {manual.summary}\n\n{manual.why}\n")
        for word, files in (("Passes", manual.passes), ("Fails", manual.fails)):
            parts.append(f"**{word}**\n")
            for name, content in files.items():
                text = content.decode("utf-8", "backslashreplace").rstrip("\n").replace("\t", "\\t")
                text = text.removeprefix(f"# {name}\n")
                parts.append(f'```yaml title="{name}"\n{text}\n```\n')
    target.write_text("\n".join(parts), encoding="utf-8")


# --- configuration files


def write_configuration(target: Path) -> None:
    """One page a kind of file: every key, its type and what it means."""
    target.mkdir(parents=True)
    rows = []
    for path in sorted(resource_folder("schemas").glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        name = path.name.removesuffix(".schema.json")
        heading = schema.get("title", name)
        (target / f"{name}.md").write_text(
            f"# {heading}\n\n{schema.get('description', '')}\n\n" + "\n".join(keys_of(schema)), encoding="utf-8"
        )
        rows.append(f"- [{heading}]({name}.md)")
    (target / "index.md").write_text("# Configuration files\n\n" + "\n".join(rows) + "\n", encoding="utf-8")


def keys_of(schema: dict[str, Any]) -> Iterator[str]:
    """The keys at the top as a table, then each definition under its own heading."""
    yield from table_of(schema)
    for name, definition in schema.get("definitions", {}).items():
        if isinstance(definition, dict):
            yield f"## {name}\n\n{definition.get('description', '')}\n"
            yield from table_of(definition) if definition.get("properties") else (f"Type: {kind_of(definition)}\n",)


def table_of(schema: dict[str, Any]) -> Iterator[str]:
    """The table of a mapping's keys; nothing if it names none."""
    rows = list(rows_of(schema))
    if rows:
        yield "| Key | Type | Meaning |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def rows_of(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """A row for every key; keys of mappings that are described in place follow with their path."""
    required = set(schema.get("required", ()))
    for name, value in schema.get("properties", {}).items():
        key = f"{prefix}{name}"
        mark = " (required)" if name in required else ""
        yield f"| `{key}`{mark} | {kind_of(value)} | {cell(value.get('description', ''))} |"
        yield from rows_of(value, f"{key}.")


def kind_of(value: dict[str, Any]) -> str:
    """The type of a value in words, with a link where it has a table of its own."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{item}`" for item in value["enum"])
    kind = value.get("type", "any")
    kinds = kind if isinstance(kind, list) else [kind]
    words = []
    for word in kinds:
        name, held = CONTAINERS.get(word, (word, ""))
        inner = value.get(held)
        words.append(f"{name} of {kind_of(inner)}" if isinstance(inner, dict) else name)
    return " or ".join(words)


if __name__ == "__main__":
    main()
