"""`paictl template`: libraries of job templates, and which virtual clusters may use them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm, warn
from paictl.cli.console import Output, localized, write, write_data, write_file, write_table
from paictl.cluster.templates import EVERY_VC, JobTemplate, TemplateLibrary, library_named, template_named
from paictl.errors import PaictlError
from paictl.i18n import counted, joined, text
from paictl.operate import templates as operate
from paictl.operate.templates import FolderRead

EXAMPLES = """
    paictl template add vision ./job-templates --vc vision
    paictl template list
    paictl job submit --template vision/resnet --set epochs=20
"""

app = App(help="Job templates of tenants: job files from a folder or a checkout of a repository.", epilog=EXAMPLES)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a library.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with job files, such as a checkout.")]
Vcs = Annotated[
    list[str] | None,
    typer.Option("--vc", metavar="VC", autocompletion=names.vcs, help="Virtual cluster that may use it; '*' for all."),
]


@app.command(epilog="paictl template add vision ./job-templates --vc vision")
def add(name: Name, folder: Folder, vc: Vcs = None, state: StateOption = None) -> None:
    """Add a library: copy all job files below a folder to the cluster.

    Links, hidden folders and files that are not jobs are left out. Nothing in the folder is run, and the cluster never
    reads it: after changes, run paictl template sync.
    """
    if not vc:
        raise PaictlError(text("say who may use it"), hint=text("--vc VC, or --vc '*' for all virtual clusters"))
    content = _read(folder)
    _done(operate.add(open_cluster(state), name, content, vc))


@app.command(epilog="paictl template sync vision ./job-templates")
def sync(name: Name, folder: Folder, vc: Vcs = None, state: StateOption = None) -> None:
    """Replace the files of a library with those of a folder, and with --vc, the virtual clusters that may use it."""
    content = _read(folder)
    _done(operate.sync(open_cluster(state), name, content, vc or ()))


def _read(folder: Path) -> FolderRead:
    content = operate.read_folder(folder)
    for path, why in content.skipped:
        console.warning(text("{path} is left out: {why}", path=path, why=why))
    for path in sorted(content.problems):
        warn(content.problems[path], f"paictl config validate {folder / path}")
    return content


def _done(library: TemplateLibrary) -> None:
    message = counted(
        "template library {name}: {count} template for {vcs}",
        "template library {name}: {count} templates for {vcs}",
        count=len(library.templates),
        name=library.name,
        vcs=_vcs(library),
    )
    console.outcome(message, name=library.name, vcs=list(library.vcs), templates=len(library.templates))


@app.command(
    "list",
    epilog="""
    paictl template list --vc vision
    paictl template list -o json
""",
)
def list_templates(
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Only what a virtual cluster may use.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """List the templates of all libraries."""
    libraries = [library for library in open_cluster(state).template_libraries() if vc is None or library.is_for([vc])]
    if output is not Output.TABLE:
        write_data([_data(library) for library in libraries], output)
        return
    rows = [
        (f"{library.name}/{template.path}", _vcs(library), _state(template), template.description)
        for library in libraries
        for template in library.templates
    ]
    write_table(("TEMPLATE", "VCS", "STATE", "DESCRIPTION"), rows)


def _vcs(library: TemplateLibrary) -> str:
    return "all" if EVERY_VC in library.vcs else ", ".join(library.vcs) or "-"


def _state(template: JobTemplate) -> str:
    errors = counted("{count} error", "{count} errors", count=template.errors)
    warnings = counted("{count} warning", "{count} warnings", count=template.warnings)
    counts = ((errors, template.errors), (warnings, template.warnings))
    return console.localized(joined(", ", [words for words, count in counts if count])) or "ok"


def _data(library: TemplateLibrary) -> dict[str, Any]:
    data: dict[str, Any] = plain(library)
    return {**data, "templates": [{k: v for k, v in template.items() if k != "text"} for template in data["templates"]]}


@app.command(
    epilog="""
    paictl template show vision
    paictl template show vision/resnet > resnet.yaml
"""
)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME[/FILE]", help="A library, or one of its files.")],
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show a library, or print one of its job files."""
    libraries = open_cluster(state).template_libraries()
    if "/" in name:
        library, template = template_named(libraries, name)
        if output is not Output.TABLE:
            write_data({"library": library.name, **plain(template)}, output)
        else:
            write_file(template.text.rstrip("\n"))
        return
    library = library_named(libraries, name)
    if output is not Output.TABLE:
        write_data(_data(library), output)
        return
    write(localized("template library {name}, for {vcs}", name=library.name, vcs=_vcs(library)))
    if library.revision:
        write(localized("commit {revision}", revision=library.revision))
    write("")
    rows = [(template.path, template.name, _state(template), template.description) for template in library.templates]
    write_table(("FILE", "JOB", "STATE", "DESCRIPTION"), rows)


@app.command(epilog="paictl template remove vision --yes")
def remove(name: Name, yes: Yes = False, state: StateOption = None) -> None:
    """Remove a library. Jobs that were made from it stay."""
    cluster = open_cluster(state)
    library_named(cluster.template_libraries(), name)
    confirm(text("template library {name} will be removed", name=name), name, yes=yes)
    cluster.remove_template_library(name)
    console.outcome(text("template library {name} removed", name=name), name=name, removed=True)
