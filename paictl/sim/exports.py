"""The files of a sweep: CSV, a plot, and Parquet, which needs pyarrow; only this module imports it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.sim.sweep import METRICS, Estimate, Setting, SweepRun, settings, sweep_csv, sweep_rows


def require_parquet() -> None:
    """Raise `PaictlError` if Parquet cannot be written here."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise PaictlError(
            "the library for Parquet is not installed (pyarrow)",
            where="--parquet",
            hint="install it: pip install 'paictl[parquet]'; or write --csv",
        ) from None


def sweep_files(
    runs: Sequence[SweepRun], *, table: Path | None = None, columns: Path | None = None, plot: Path | None = None
) -> dict[Path, str | bytes]:
    """The contents to write by path: rows as CSV and as Parquet, and the plot."""
    files: dict[Path, str | bytes] = {}
    if table is not None:
        files[table] = sweep_csv(runs)
    if columns is not None:
        files[columns] = sweep_parquet(runs)
    if plot is not None:
        files[plot] = sweep_svg(settings(runs))
    return files


def sweep_parquet(runs: Sequence[SweepRun]) -> bytes:
    """A row for each run, with the columns of `sweep_csv`; missing values are null.

    Figures are numbers; a swept parameter is a number if all of its values are, else text.
    """
    require_parquet()
    import pyarrow.parquet

    rows = list(sweep_rows(runs))
    names = list(rows[0]) if rows else []
    table = pyarrow.table({name: _column([row[name] for row in rows]) for name in names})
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _column(values: list[object]) -> list[object]:
    """The values of a column, as numbers if all of them are; empty text is null."""
    parsed = [None if value == "" else value for value in values]
    if not any(isinstance(value, str) for value in parsed):
        return parsed
    try:
        return [None if value is None else float(str(value)) for value in parsed]
    except ValueError:
        return parsed


_WIDTH: Final = 760
_PANEL: Final = 180
_LEFT: Final = 90
_RIGHT: Final = 20
_TOP: Final = 28
_LABELS: Final = 120
"""Room below for the names of the settings."""
_COLOURS: Final = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e")


def sweep_svg(rows: Sequence[Setting]) -> str:
    """Metrics down, settings across; a line for each cluster. Units as in the data: seconds, fractions, counts."""
    policies = list(dict.fromkeys(setting.policy for setting in rows))
    clusters = list(dict.fromkeys(setting.cluster for setting in rows))
    shown = [metric for metric in METRICS if any(metric in setting.estimates for setting in rows)]
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(policies))
    across = {policy: _LEFT + step * (place + 0.5) for place, policy in enumerate(policies)}
    height = _PANEL * len(shown) + _LABELS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for place, metric in enumerate(shown):
        lines = {
            cluster: {
                setting.policy: setting.estimates[metric]
                for setting in rows
                if setting.cluster == cluster and metric in setting.estimates
            }
            for cluster in clusters
        }
        parts += _panel(metric, place * _PANEL, lines, across)
    bottom = _PANEL * len(shown)
    for policy, x in across.items():
        parts.append(f'<text transform="translate({x:.1f} {bottom + 12}) rotate(35)">{escape(policy)}</text>')
    if len(clusters) > 1:
        for place, cluster in enumerate(clusters):
            colour = _COLOURS[place % len(_COLOURS)]
            parts.append(f'<text x="{_LEFT + 160 * place}" y="{height - 8}" fill="{colour}">{escape(cluster)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(metric: str, top: float, lines: dict[str, dict[str, Estimate]], across: dict[str, float]) -> Iterator[str]:
    values = [
        bound
        for line in lines.values()
        for estimate in line.values()
        for bound in (estimate.mean, estimate.low, estimate.high)
        if bound is not None
    ]
    low, high = min(values), max(values)
    room = (high - low) or abs(high) or 1.0
    low, high = low - 0.08 * room, high + 0.08 * room

    def y(value: float) -> float:
        return top + _PANEL - 16 - (value - low) / (high - low) * (_PANEL - _TOP - 16)

    yield f'<text x="{_LEFT}" y="{top + 18:.0f}" font-weight="bold">{escape(metric)}</text>'
    for place in range(3):
        value = low + (high - low) * place / 2
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>'
    for number, line in enumerate(lines.values()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{across[policy]:.1f},{y(estimate.mean):.1f}" for policy, estimate in line.items())
        yield f'<polyline points="{points}" fill="none" stroke="{colour}"/>'
        for policy, estimate in line.items():
            x = across[policy]
            if estimate.low is not None and estimate.high is not None:
                ends = f'y1="{y(estimate.low):.1f}" y2="{y(estimate.high):.1f}"'
                yield f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{colour}"/>'
            yield f'<circle cx="{x:.1f}" cy="{y(estimate.mean):.1f}" r="3" fill="{colour}"/>'
