"""`paictl config`: validate the files, and tell what the rules and schemas are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl import i18n
from paictl.cli.command import App
from paictl.cli.config import apply as config_apply
from paictl.cli.config import capacity as config_capacity
from paictl.cli.config import generate as config_generate
from paictl.cli.config import push as config_push
from paictl.cli.config import validate as config_validate
from paictl.cli.console import Output, info, localized, reflowed, write, write_data, write_table
from paictl.cli.options import OutputOption, kind_option, meant, rule_ids
from paictl.config.linting.rules import all_rules, find_rule, rules_for
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.schema import SCHEMA_NAMES, load_schema, schema_file, schema_text
from paictl.errors import PaictlError
from paictl.files import write_together

EXAMPLES = """
    paictl config validate cluster/
    paictl config pull -o cluster/
    paictl config push -p cluster/ --dry-run
"""

app = App(help="Validate, generate and compare configuration files.", epilog=EXAMPLES)
schema_app = App(help="Print or export JSON Schemas of the files, for editors and other tools.")
app.add_typer(schema_app, name="schema")
app.command("validate", epilog=config_validate.EPILOG)(config_validate.validate)
app.command("generate", epilog=config_generate.EPILOG)(config_generate.generate)
app.command("capacity", epilog=config_capacity.CAPACITY_EPILOG)(config_capacity.capacity)
app.command("diff", epilog=config_capacity.DIFF_EPILOG)(config_capacity.diff)
app.command("get-id", epilog="paictl config get-id")(config_push.get_id)
app.command("push", epilog=config_push.PUSH_EPILOG)(config_push.push)
app.command("plan", epilog="paictl config plan -p cluster/ -o change.json")(config_apply.plan)
app.command("apply", epilog="paictl config apply change.json")(config_apply.apply)
app.command("pull", epilog="paictl config pull -o cluster/")(config_push.pull)
app.command("history", epilog="paictl config history")(config_push.history)
app.command("rollback", epilog="paictl config rollback 3 --dry-run")(config_push.rollback)


@app.command(epilog="paictl config rules -o json")
def rules(
    kind: Annotated[FileKind | None, kind_option("Only the rules for one kind of file")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the rules: id, name, severity, what is wrong."""

    chosen = sorted(rules_for(kind), key=lambda rule: rule.id) if kind else all_rules()
    data = [
        {"id": rule.id, "name": rule.name, "severity": rule.severity.value, "summary": rule.manual.summary}
        for rule in chosen
    ]
    if output is Output.TABLE:
        rows = [(row["id"], row["name"], row["severity"], localized(row["summary"])) for row in data]
        write_table(("ID", "NAME", "SEVERITY", "SUMMARY"), rows)
    else:
        write_data(data, output)


@app.command(
    epilog="""
    paictl config explain HVD512
    paictl config explain duplicate-key
"""
)
def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Id or name of a rule.", autocompletion=rule_ids)],
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain a rule: what is wrong, why it matters, an example that passes and one that fails."""

    lint_rule = find_rule(rule)
    manual = lint_rule.manual
    if output is not Output.TABLE:
        data = {
            "id": lint_rule.id,
            "name": lint_rule.name,
            "severity": lint_rule.severity.value,
            "summary": manual.summary,
            "why": manual.why,
            "passes": _texts(manual.passes),
            "fails": _texts(manual.fails),
        }
        write_data(data, output)
        return
    write(f"{lint_rule.id} {lint_rule.name} ({lint_rule.severity.value})\n")
    for paragraph in (manual.summary, manual.why):
        write(reflowed(localized(paragraph)) + "\n")
    for title, files in (("Passes:", manual.passes), ("Fails:", manual.fails)):
        write(f"{localized(title)}\n")
        for name, text in _texts(files).items():
            body = text if text.startswith(f"# {name}") else f"# {name}\n{text}"
            write("\n".join(f"    {line}".rstrip() for line in body.splitlines()) + "\n")
    if lint_rule.id.startswith("SHP"):
        write(localized("The schemas describe what is expected: paictl config schema show KIND"))


def _texts(files: dict[str, bytes]) -> dict[str, str]:
    """Examples as text; bytes that are no text are shown as escapes."""
    return {name: data.decode("utf-8", errors="backslashreplace").lstrip("\ufeff") for name, data in files.items()}


@schema_app.command("list", epilog="paictl config schema list -o name")
def list_schemas(output: OutputOption = Output.TABLE) -> None:
    """List the schemas."""
    data = [
        {"name": name, "kind": kind.value, "title": load_schema(name)["title"]} for kind, name in SCHEMA_NAMES.items()
    ]
    if output is Output.TABLE:
        write_table(("NAME", "KIND", "TITLE"), [(row["name"], row["kind"], localized(row["title"])) for row in data])
    else:
        write_data(data, output)


SchemaName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of a schema, or the kind of file it is for.",
        autocompletion=lambda: list(_schema_names()),
    ),
]


@schema_app.command("show", epilog="paictl config schema show job")
def show_schema(name: SchemaName) -> None:
    """Print one schema as JSON."""
    write(_schema_text(name))


def _schema_text(word: str) -> str:
    names = _schema_names()
    if word not in names:
        raise PaictlError(i18n.text("no schema {word!r}", word=word), hint=meant(word, tuple(sorted(names))))
    return schema_text(names[word]).rstrip()


def _schema_names() -> dict[str, str]:
    """Schemas by their own names and by the kinds of file they are for."""
    return {kind.value: name for kind, name in SCHEMA_NAMES.items()} | {name: name for name in SCHEMA_NAMES.values()}


@schema_app.command("export", epilog="paictl config schema export schemas/")
def export_schemas(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder; created if missing.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write all schemas as NAME.schema.json: on top of a file, `# yaml-language-server: $schema=PATH` names one."""
    for path in write_together(folder, {schema_file(n): schema_text(n) for n in SCHEMA_NAMES.values()}, force=force):
        write(str(path))
    example = folder / schema_file(SCHEMA_NAMES[FileKind.LAYOUT])
    info(
        i18n.text(
            "an editor uses one if the first line of a file is: # yaml-language-server: $schema={example}",
            example=example,
        )
    )
