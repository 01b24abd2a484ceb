"""`paictl sim policies`: what each policy knows, its parameters, its paper."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli.command import App
from paictl.cli.console import Output, localized, reflowed, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.sim.policies.parameters import described
from paictl.sim.policies.table import known_policies, policy_class

if TYPE_CHECKING:
    from paictl.sim.policies.base import Policy

app = App()


@app.command(
    epilog="""
    paictl sim policies
    paictl sim policies srtf
"""
)
def policies(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", autocompletion=known_policies, help="Only this one, in full."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the policies: what each knows about jobs, its parameters with defaults, its paper."""
    if name is not None:
        kind = policy_class(name)
        if output is Output.TABLE:
            _write_policy(kind)
        else:
            write_data(_policy(kind), output)
        return
    kinds = [policy_class(name) for name in known_policies()]
    if output is not Output.TABLE:
        write_data([_policy(kind) for kind in kinds], output)
        return
    write_table(("POLICY", "KNOWS", "WHAT IT DOES"), ((kind.id, _knows(kind), localized(kind.title)) for kind in kinds))


def _knows(kind: type[Policy]) -> str:
    return ", ".join(sorted(ability.name.lower() for ability in kind.knows)) or localized("nothing")


def _policy(kind: type[Policy]) -> dict[str, Any]:
    return {
        "name": kind.id,
        "title": kind.title,
        "paper": kind.paper,
        "knows": sorted(ability.name.lower() for ability in kind.knows),
        "parameters": [asdict(parameter) for parameter in described(kind.Parameters)],
        "choices": list(kind.choices),
        "about": " ".join(_about(kind)),
    }


def _about(kind: type[Policy]) -> list[str]:
    """The paragraphs of what a policy says about itself, each on one line."""
    return [" ".join(paragraph.split()) for paragraph in (kind.__doc__ or "").split("\n\n")]


def _write_policy(kind: type[Policy]) -> None:
    write(f"{kind.id}: {localized(kind.title)}")
    write(localized("from: {paper}", paper=kind.paper))
    write("")
    for paragraph in _about(kind):
        write(reflowed(localized(paragraph)))
        write("")
    knows = sorted(kind.knows, key=lambda ability: ability.name)
    if knows:
        write(localized("Besides the user's request, it knows about a job:"))
        for ability in knows:
            write(f"  {ability.name.lower()}: {localized(ability.value)}")
    else:
        write(localized("It knows nothing about a job except its user's request."))
    write("")
    write_table(
        ("PARAMETER", "DEFAULT", "VALUES", "WHAT IT DOES"),
        (
            (parameter.name, parameter.default, localized(parameter.allowed), localized(parameter.help))
            for parameter in described(kind.Parameters)
        ),
    )
    if kind.choices:
        write("")
        write(localized("Choices that the paper leaves open:"))
        for choice in kind.choices:
            write(reflowed(f"- {localized(choice)}"))
