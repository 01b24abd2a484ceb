"""`paictl extender explain-pod`: how the scheduler reads a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import Output
from paictl.cli.options import OutputOption

app = App()

_YES_NO: Final = {True: "yes", False: "no"}


@app.command(
    "explain-pod",
    epilog="""
    paictl extender explain-pod pod.yaml
    kubectl get pod train-0 -o yaml | paictl extender explain-pod -
""",
)
def explain_pod(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Pods, optionally with their Jobs (YAML, JSON), - for stdin.")
    ],
    *,
    config: Annotated[Path | None, typer.Option(help="Configuration, for the devices of a leaf cell by SKU.")] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", metavar="RESOURCE", help="Resource that counts as devices.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how the scheduler reads a pod: its virtual cluster, gang, leaf cells and door, and how it gets devices.

    If the file has the Job, JobSet, TrainJob, PyTorchJob, TFJob or MPIJob as well, it says how many pods the owner
    runs and which label says so. A pod with resourceClaims is checked against the ResourceClaimTemplates in the
    file.
    The exit code is 0 if all pods could be read, 1 if not.
    """
    from paictl.cli.extender.pods import explained  # late: needs the extra k8s

    rows = explained(file, config, device)
    if output is Output.TABLE:
        for row in rows:
            console.write(f"pod {row['pod']}" + ("" if row["read"] == "yes" else f": {console.localized(row['why'])}"))
            for key, value in row.items():
                if key not in ("pod", "read", "why"):
                    words = _YES_NO[value] if isinstance(value, bool) else value
                    console.write(f"  {console.localized(key)}: {console.localized(words)}")
    else:
        console.write_data(rows, output)
    if any(row["read"] == "no" for row in rows):
        raise typer.Exit(1)
