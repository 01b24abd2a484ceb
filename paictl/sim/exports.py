"""The files of a sweep: CSV, a plot, and Parquet; for the last one pyarrow is needed, which only this module knows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from paictl.errors import PaictlError
from paictl.sim.plot import sweep_svg
from paictl.sim.sweep import SweepRun, settings, sweep_csv, sweep_rows


def require_parquet() -> None:
    """Raise `PaictlError` if Parquet cannot be written here."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise PaictlError(
            "the library for Parquet is not installed (pyarrow)", where="--parquet",
            hint="install it: pip install 'paictl[parquet]'; or write --csv",
        ) from None  # fmt: skip


def sweep_files(
    runs: Sequence[SweepRun], *, table: Path | None = None, columns: Path | None = None, plot: Path | None = None
) -> dict[Path, str | bytes]:
    """What to write where: rows as CSV and as Parquet, and the plot."""
    files: dict[Path, str | bytes] = {}
    if table is not None:
        files[table] = sweep_csv(runs)
    if columns is not None:
        files[columns] = sweep_parquet(runs)
    if plot is not None:
        files[plot] = sweep_svg(settings(runs))
    return files


def sweep_parquet(runs: Sequence[SweepRun]) -> bytes:
    """A row for each run, with the columns of `sweep_csv`; what has no value is null.

    Figures are numbers; a swept parameter is a number where all of its values are, else text.
    """
    require_parquet()
    import pyarrow as pa
    from pyarrow import parquet

    rows = list(sweep_rows(runs))
    names = list(rows[0]) if rows else []
    table = pa.table({name: _column([row[name] for row in rows]) for name in names})
    out = io.BytesIO()
    parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _column(values: list[object]) -> list[object]:
    """Text that is a number everywhere, as numbers; an empty one is null."""
    given = [None if value == "" else value for value in values]
    if not any(isinstance(value, str) for value in given):
        return given
    try:
        return [None if value is None else float(str(value)) for value in given]
    except ValueError:
        return given
