"""`paictl sim size`: the smallest cluster that meets a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli.command import App
from paictl.cli.console import Output, info, localized, progressing, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.runs import (
    FailuresOption,
    ResumeOption,
    SeedOption,
    estimating,
    resumable,
)
from paictl.cli.sim.shared import FormatOption, TraceArgument, number, read_trace, share, span
from paictl.errors import ExitCode
from paictl.i18n import counted, text
from paictl.sim import sizing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paictl.sim.checkpoints import KeptRuns
    from paictl.sim.job import Trace
    from paictl.sim.sizing import SizingAnswer, SizingQuestion, SizingTarget, SizingTrial

app = App()

EPILOG = """
paictl sim size tiny --target 'p95 queueing <= 1h'
paictl sim size tenants --target 'p95 queueing <= 1h' --target 'mean jct <= 4h' --policy srtf --node 8
paictl sim size jobs.csv --target 'max waiting <= 1d' --cluster layout.yaml --node V100=8 --node A100=4 --price V100=9.8
paictl sim size tenants --target 'p95 queueing <= 1h' --failures node=10d,repair=12h
"""


@app.command(epilog=EPILOG)
def size(
    trace: TraceArgument,
    targets: Annotated[
        list[str],
        typer.Option(
            "--target", metavar="TEXT", help="Target such as 'p95 queueing <= 1h'; repeatable, all must be met."
        ),
    ],
    policy: Annotated[str, typer.Option("--policy", "-p", metavar="NAME[:KEY=VALUE,…]", help="As for run.")] = "fifo",
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="SPEC", help="Existing nodes; default: none.")
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="[TYPE=]DEVICES",
            help="Kind of node to add (8); if repeated, each kind is tried separately.",
        ),
    ] = None,
    prices: Annotated[
        list[str] | None, typer.Option("--price", metavar="[TYPE=]AMOUNT", help="Price of one such node per hour.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, max=100_000, help="Maximum number of nodes to try.")] = 4096,
    kind: FormatOption = None,
    seed: SeedOption = 0,
    failures: FailuresOption = "none",
    resume: ResumeOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find the smallest number of nodes, or of additional nodes, with which a trace meets its targets, and the price.

    Targets are mean, median, p95, … or max of jct, queueing or waiting, or makespan. The exit code is 1 if no number
    of nodes meets them. With --failures, the answer includes spare nodes for failures and repairs.
    """
    question = sizing.question(policy, targets, nodes or ["8"], prices or [], cluster, failures)
    with progressing(text("reading {trace}", trace=trace)) as say:
        workload = read_trace(trace, kind)
        with resumable(workload, resume=resume) as (kept,):
            answers = _searched(question, workload, policy, seed=seed, most=most, kept=kept, say=say)
    best = sizing.best(answers)
    if output is Output.TABLE:
        _write(answers, best, question.goals, cluster)
    else:
        write_data({"policy": policy, "cluster": cluster, **_data(question, answers, best)}, output)
    if best is None:
        raise typer.Exit(ExitCode.NEGATIVE)


def _searched(
    question: SizingQuestion,
    trace: Trace,
    policy: str,
    *,
    seed: int,
    most: int,
    kept: KeptRuns,
    say: Callable[[str], None],
) -> list[SizingAnswer]:
    """An answer for each kind of node; reports for each number of nodes tried whether it is enough."""
    trials: dict[int, Callable[[float], None]] = {}

    def tried(trial: SizingTrial) -> None:
        say(text("{nodes:,} nodes: {met}", nodes=trial.nodes, met=text("enough") if trial.met else text("too few")))

    def part(number: int, done: float) -> None:
        if done == 0 or number not in trials:
            trials[number] = estimating(say, text("{nodes:,} nodes", nodes=number))
        trials[number](done)

    answers = []
    for kind in question.kinds:
        trials.clear()
        answers.append(
            sizing.size(
                trace.jobs,
                kind,
                question.goals,
                policy,
                base=question.base,
                seed=seed,
                failures=question.failures,
                most=most,
                tried=tried,
                part=part,
                kept=kept,
            )
        )
    return answers


def _data(question: SizingQuestion, answers: Sequence[SizingAnswer], best: SizingAnswer | None) -> dict[str, Any]:
    return {
        "failures": None if question.failures is None else question.failures.text,
        "targets": [goal.text for goal in question.goals],
        "best": None if best is None else answers.index(best),
        "answers": [_answer(answer) for answer in answers],
    }


def _seconds(values: Sequence[float]) -> list[float | None]:
    """Milliseconds as seconds; None for a job that never ends."""
    return [value / 1000 if value < 1e17 else None for value in values]


def _answer(given: SizingAnswer) -> dict[str, Any]:
    trials = [
        {
            "nodes": trial.nodes,
            "devices": trial.devices,
            "values": _seconds(trial.values),
            "met": trial.met,
            "interruptions": trial.interruptions,
            "wasted": trial.wasted,
        }
        for trial in given.trials
    ]
    return {
        "type": given.offer.type,
        "devices_per_node": given.offer.devices,
        "price_per_node_hour": given.offer.price,
        "nodes": None if given.smallest is None else given.smallest.nodes,
        "devices": None if given.smallest is None else given.smallest.devices,
        "price_per_hour": given.price,
        "reason": given.reason or None,
        "trials": trials,
    }


def _write(
    answers: Sequence[SizingAnswer], best: SizingAnswer | None, goals: Sequence[SizingTarget], cluster: str | None
) -> None:
    for answer in answers:
        name = f"{answer.offer.type}={answer.offer.devices}"
        failing = any(trial.interruptions is not None for trial in answer.trials)
        write_table(
            (
                localized("NODES OF {name}" if cluster is None else "MORE NODES OF {name}", name=name),
                "DEVICES",
                *(goal.text.upper() for goal in goals),
                "MET",
                *(("INTERRUPTIONS", "UNDONE") if failing else ()),
            ),
            (
                (
                    number(trial.nodes),
                    number(trial.devices),
                    *map(span, _seconds(trial.values)),
                    localized("yes" if trial.met else "no"),
                    *((number(trial.interruptions), share(trial.wasted)) if failing else ()),
                )
                for trial in sorted(answer.trials, key=lambda trial: trial.nodes)
            ),
        )
        if answer.reason:
            info(answer.reason)
        write("")
    if best is None or best.smallest is None:
        write(localized("no number of nodes meets the targets"))
        return
    words = ("{count} node of {devices} {type}", "{count} nodes of {devices} {type}")
    if cluster is not None:
        words = ("{count} more node of {devices} {type}", "{count} more nodes of {devices} {type}")
    nodes, offer = best.smallest.nodes, best.offer
    write(localized(counted(*words, nodes, devices=offer.devices, type=offer.type)))
    if best.price is not None:
        write(localized("{price:,.2f} an hour", price=best.price))
