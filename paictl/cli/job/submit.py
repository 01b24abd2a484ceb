"""`paictl job submit`: jobs from files, or from a template."""

# Annotations are no texts here, as in `command`: of all commands this one has most options.

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, me, open_cluster
from paictl.cli.command import App
from paictl.cli.confirmation import showing_reports, warn
from paictl.cli.console import Output, write, write_data
from paictl.cli.job.options import TagsOption, UserOption, job_data
from paictl.cli.lab.location import paced
from paictl.cluster.capabilities import HandClock
from paictl.cluster.interface import Cluster
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate import budgets, submitting
from paictl.operate import jobs as operate
from paictl.operate.jobfiles import SubmitOptions, files_listed

if TYPE_CHECKING:
    from paictl.config.reading.problem import Problem

app = App()


@app.command(
    epilog="""
    paictl job submit train.yaml --vc vision --priority prod --duration 5m
    paictl job submit --file list.txt
    paictl job submit train.yaml --repeat 100 --tag sweep-7
    paictl job submit --template vision/resnet --set epochs=20 --name resnet-20
"""
)
def submit(
    files: Annotated[list[str] | None, typer.Argument(help="Job files (OpenPAI protocol v2), or - for stdin.")] = None,
    listed: Annotated[Path | None, typer.Option("--file", help="A file that lists job files, one per line.")] = None,
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Virtual cluster (overrides the file's).")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", autocompletion=names.priorities, help="oppo, test, prod or crit.")
    ] = None,
    duration: Annotated[str | None, typer.Option("--duration", help="How long each task runs, e.g. 5m.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Submit each file N times, as NAME-1, NAME-2, …")] = 1,
    name: Annotated[str | None, typer.Option("--name", help="Name of the job (overrides the file's).")] = None,
    tags: TagsOption = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template", metavar="LIBRARY/FILE", help="A job template instead of a file: paictl template list."
        ),
    ] = None,
    settings_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAMETER=VALUE", help="With --template: a parameter of the job; repeatable."),
    ] = None,
    user: UserOption = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Submit jobs: all of the files, or none."""
    paths = [*(files or []), *(files_listed(listed) if listed else [])]
    if template is not None and paths:
        raise PaictlError(text("--template works without job files"), hint=text("give only one of the two"))
    if settings_ and template is None:
        raise PaictlError(text("--set works only with --template"), hint=text("edit the parameters of the file"))
    if not paths and template is None:
        raise PaictlError("no job file given", hint="paictl job submit FILE, or --file LIST")
    if name is not None and len(paths) > 1:
        raise PaictlError("--name works with a single file only")
    with showing_reports(), console.progress(text("submitting")):
        options = SubmitOptions(vc, priority, duration, name, repeat, tuple(tags or ()))
        cluster = open_cluster(state)
        read, noted = _from_template(cluster, template, settings_ or ())
        done = submitting.submit(paced(cluster), read or paths, user or me(), options, read)
    warn((*noted, *done.warnings), "paictl config validate FILE")
    for said_no in done.unchecked:
        console.warning(said_no)
    for remark in budgets.remarks(cluster, done.jobs):
        console.warning(remark)
    if output is not Output.TABLE:
        write_data([job_data(job) for job in done.jobs], output)
        return
    imagined = isinstance(cluster, HandClock) and cluster.storages()
    for job in done.jobs[:20]:
        write(f"{job.key}  {job.state.value}")
        for mount in operate.mounts(cluster, job) if imagined else ():
            console.info(text("simulated: {mount} would be mounted", mount=str(mount)))
    if len(done.jobs) > 20:
        write(console.localized("and {count} more", count=len(done.jobs) - 20))


def _from_template(
    cluster: Cluster, word: str | None, given: Iterable[str]
) -> "tuple[dict[str, Mapping[str, object]], list[Problem]]":
    """The job that a template makes, by its location, and its warnings; both empty without a template."""
    noted: list[Problem] = []
    if word is None:
        return {}, noted
    from paictl.operate.templates import job_from  # late: few jobs are from templates

    pairs = [pair.partition("=") for pair in given]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise PaictlError(text("--set needs PARAMETER=VALUE, not {word!r}", word=name))
    where, job = job_from(cluster, word, {name: value for name, _, value in pairs}, noted.append)
    return {where: job}, noted
