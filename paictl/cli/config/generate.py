"""`paictl config generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.console import Output
from paictl.config.linting.report import FORMATS
from paictl.config.making.generate import GeneratedFiles, GenerateInputs, inventory_of, plan, read_inputs, recheck
from paictl.config.making.generate_text import render
from paictl.config.making.skus import parse_sku
from paictl.config.reading.schema import named_schemas
from paictl.errors import ExitCode
from paictl.files import write_together
from paictl.i18n import text

EPILOG = """
    paictl config generate -m master.csv -w worker.csv -c config.yaml --sku V100=gpu:8,cpu:96,memory:900Gi -o cluster/
    Several kinds of worker, the last one for the rest:
    --sku 'V100@gpu-[01-16]=gpu:8,cpu:96,memory:900Gi' --sku CPU=cpu:64,memory:500Gi
"""


def generate(
    masters: Annotated[
        str, typer.Option("--masters", "-m", metavar="FILE", help="List of masters, one hostname,address per line.")
    ],
    workers: Annotated[
        str, typer.Option("--workers", "-w", metavar="FILE", help="List of workers, one hostname,address per line.")
    ],
    config: Annotated[str, typer.Option("--config", "-c", metavar="FILE", help="Cluster settings (config.yaml).")],
    folder: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder; created if missing.")],
    sku: Annotated[
        list[str] | None,
        typer.Option(
            "--sku",
            metavar="NAME[@HOSTS]=gpu:8,cpu:96,memory:900Gi",
            help="Hardware of a kind of worker. HOSTS are names with * ? and [01-16]; without HOSTS: all others. "
            "Also type:nvidia.com/gpu and model:V100. The first goes to the virtual cluster default.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    form: Annotated[Output, typer.Option("--format", "-f", help="Output format.")] = Output.TABLE,
) -> None:
    """Generate layout.yaml and services-configuration.yaml, with a HiveD configuration."""
    inputs = read_inputs(masters, workers, config)
    if not inputs.usable:
        _refuse(inputs)
    made = plan(inventory_of(inputs), [parse_sku(text) for text in sku or ()])
    texts = render(made)
    recheck(inputs, texts)
    written = write_together(folder, {**texts, **named_schemas(texts.values())}, force=force, mode=0o600)
    _show(made, written, form)


def _refuse(inputs: GenerateInputs) -> None:
    """Show what is wrong with the inputs, in the words of `config validate`."""
    console.write_segments(FORMATS["text"](inputs.report))
    console.info("nothing was written: correct the errors first")
    raise typer.Exit(ExitCode.NEGATIVE)


def _show(made: GeneratedFiles, written: list[Path], form: Output) -> None:
    if form is not Output.TABLE:
        console.write_data(_data(made, written), form)
        return
    columns = ("SKU", "VC", "NODES", "CELLS A NODE", "CPU A CELL", "MEMORY A CELL")
    rows = [(p.sku.name, p.vc, len(p.nodes), p.leaves, p.cpus, f"{p.memory}Mi") for p in made.pools]
    if rows:
        console.write_table(columns, rows)
    for path in written:
        console.write(console.localized("wrote {path}", path=path))
    for note in made.notes:
        console.info(text("note: {note}", note=note))


def _data(made: GeneratedFiles, written: list[Path]) -> dict[str, Any]:
    return {
        "files": [str(path) for path in written],
        "pools": [
            {
                "sku": pool.sku.name,
                "virtualCluster": pool.vc,
                "nodes": list(pool.nodes),
                "cellsPerNode": pool.leaves,
                "cpuPerCell": pool.cpus,
                "memoryPerCellMi": pool.memory,
            }
            for pool in made.pools
        ],
        "notes": list(made.notes),
    }
