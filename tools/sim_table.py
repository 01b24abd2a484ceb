"""The table of docs/simulator.md: every published figure, ours, the difference, and why a row is outside its bound.

`python -m tools.sim_table` plays all rows and prints the table; `--write` puts it into docs/simulator.md, `--only
chronus` plays one file, `--row 'workload 2'` the rows of that name. Rows that were not played keep their lines. The
exit code is 1 if a row is outside its bound and gives no reason, or gives one and is within it.

Rows are data: `tests/sim_reference/rows/*.yaml`, a file a system. Fields of a file hold for all of its rows:

    title: Gavel                   # the heading
    source: table D3 of policies.md, gavel @c4fa400
    trace: gavel.tar.gz/gavel/physical_cluster/max_min_fairness.trace      # in ../shared/traces; means over a list
    format: gavel
    cluster: V100=8x1,P100=16x1,K80=24x1
    seeds: 0                       # or 0..4: figures are means over them
    inflate: 1.3                   # left out: the trace as it is
    bound: 6 %                     # or 3 points, or exact (to 0.01)
    rows:
    - {name: 96 jobs, policy: gavel, mean_jct: 13766.0, makespan: 61591.2}
    - {name: 96 jobs, policy: 'gavel:objective=fifo', mean_jct: 18643.4, reason: what was measured}

A figure is a field of `sim run -o json` or one of its counters; `weighted_miss` is in per cent. `bounds: {makespan:
10 %}` in a row or a file sets the bound of one figure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from math import fsum
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.frozen import frozen
from paictl.sim.job import Job
from paictl.sim.metrics import figures
from paictl.sim.parallel import RunRequest, play
from paictl.sim.run import RunResult
from paictl.sim.specify import cluster_named
from paictl.sim.traces.load import load

ROOT: Final = Path(__file__).resolve().parent.parent
ROWS: Final = ROOT / "tests" / "sim_reference" / "rows"
PAGE: Final = ROOT / "docs" / "simulator.md"
TRACES: Final = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared")) / "traces"
BEGIN: Final = "<!-- tools.sim_table writes from here -->"
END: Final = "<!-- to here -->"
_SETTINGS: Final = frozenset(
    {"name", "policy", "trace", "format", "cluster", "seeds", "inflate", "bound", "bounds", "reason"}
)
"""Fields of a row that are no figures."""
_PERCENT: Final = frozenset({"weighted_miss"})
"""Figures that are parts of 1 in a run and per cent here."""


class RowError(ValueError):
    """A file of rows that cannot be played: what, and in which row."""


@frozen
class Play:
    """What is run for a row."""

    traces: tuple[str, ...]
    format: str
    cluster: str
    policy: str
    seeds: tuple[int, ...]
    inflate: float | None


@frozen
class Row:
    """One published figure."""

    title: str
    name: str
    play: Play
    figure: str
    published: float
    bound: str
    reason: str

    def within(self, ours: float) -> bool:
        """Whether our figure is within the bound of the row."""
        if self.bound == "exact":
            return abs(ours - self.published) < 0.01
        amount, unit = self.bound.split()
        off = ours - self.published if unit == "points" else (ours / self.published - 1) * 100
        return round(abs(off), 6) <= float(amount)

    def difference(self, ours: float) -> str:
        """Ours against the published one."""
        if self.bound.endswith("points"):
            return f"{ours - self.published:+.2f} points"
        return "0" if round(ours, 2) == round(self.published, 2) else f"{100 * (ours / self.published - 1):+.1f} %"


def files() -> list[Path]:
    """One for each system, by name."""
    return sorted(ROWS.glob("*.yaml"))


def rows(path: Path) -> list[Row]:
    """The rows of a file; raises `RowError`."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    shared = {key: value for key, value in data.items() if key not in ("title", "source", "rows")}
    found = []
    for number, given in enumerate(data["rows"], 1):
        where = f"{path.name}, row {number}"
        row = {**shared, **given}
        if missing := {"name", "policy", "trace", "format", "cluster", "bound"} - row.keys():
            raise RowError(f"{where}: lacks {', '.join(sorted(missing))}")
        wanted = Play(
            (row["trace"],) if isinstance(row["trace"], str) else tuple(row["trace"]),
            row["format"],
            str(row["cluster"]),
            row["policy"],
            _seeds(row.get("seeds", 0)),
            row.get("inflate"),
        )
        bounds = {**shared.get("bounds", {}), **given.get("bounds", {})}
        published = {key: value for key, value in given.items() if key not in _SETTINGS}
        if not published:
            raise RowError(f"{where}: has no published figure")
        for figure, value in published.items():
            bound = str(bounds.get(figure, row["bound"]))
            if bound != "exact" and (len(bound.split()) != 2 or bound.split()[1] not in ("%", "points")):
                raise RowError(f"{where}: a bound is 'exact', '6 %' or '3 points', not {bound!r}")
            found.append(Row(data["title"], row["name"], wanted, figure, float(value), bound, row.get("reason", "")))
    return found


def _seeds(given: int | str) -> tuple[int, ...]:
    first, _, last = str(given).partition("..")
    return tuple(range(int(first), int(last or first) + 1))


@cache
def _jobs(trace: str, kind: str) -> Sequence[Job]:
    return load(f"{TRACES}/{trace}", kind).jobs


@cache
def _runs(wanted: Play) -> Sequence[RunResult]:
    spec = cluster_named(f"{TRACES}/{wanted.cluster}" if wanted.cluster.endswith(".csv") else wanted.cluster)
    requests = [RunRequest(wanted.policy, spec, seed, wanted.inflate) for seed in wanted.seeds]
    return [run for trace in wanted.traces for run in play(_jobs(trace, wanted.format), requests)]


def measured(row: Row) -> float:
    """Our figure: the mean over traces and seeds; raises `RowError` for a figure that a run does not have."""
    values = []
    for run in _runs(row.play):
        found = getattr(figures(run), row.figure, run.counters.get(row.figure))
        if found is None:
            raise RowError(f"{row.title}, {row.name}: a run under {row.play.policy} has no figure {row.figure!r}")
        values.append(float(found) * (100 if row.figure in _PERCENT else 1))
    return fsum(values) / len(values)


HEAD: Final = (
    "| row | policy | figure | published | ours | difference | bound | measured reason |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def line(row: Row, ours: float) -> str:
    """The line of a row in the table of its file."""
    reason = "" if row.within(ours) else row.reason
    return f"{_begin(row)} {_number(ours)} | {row.difference(ours)} | {row.bound} | {reason} |".replace("  |", " |")


def _begin(row: Row) -> str:
    """How the line of a row begins, whatever ours is."""
    policy = row.play.policy.replace("|", "/")
    return f"| {row.name} | `{policy}` | {row.figure.replace('_', ' ')} | {_number(row.published)} |"


def block(path: Path, lines: Mapping[Row, str], old: str) -> str:
    """The table of a file: the lines of the rows that were played, of the others those that the page has."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = old.splitlines()
    body = []
    for row in rows(path):
        begin = _begin(row)
        body += [lines[row]] if row in lines else [text for text in known if text.startswith(begin)][:1]
    return "\n".join((f"**{data['title']}** ({data['source']})", "", HEAD, *body))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100_000 or value == int(value) else f"{value:,.2f}"


def faults(found: Sequence[tuple[Row, float]]) -> list[str]:
    """Rows outside their bound without a reason, and files whose reasons are of no use."""
    wrong = [
        f"{row.title}, {row.name}, {row.play.policy}, {row.figure}: {row.difference(ours)}, outside {row.bound}"
        for row, ours in found
        if not row.within(ours) and not row.reason
    ]
    explained: dict[tuple[Play, str], list[bool]] = {}
    for row, ours in found:
        if row.reason:
            explained.setdefault((row.play, row.reason), []).append(row.within(ours))
    return wrong + [
        f"{wanted.policy} on {', '.join(wanted.traces)}: all figures are within their bounds, the reason is of no use"
        for (wanted, _), within in explained.items()
        if all(within)
    ]


def replaced(page: str, text: str) -> str:
    """The page with another table between the two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}"


def kept(page: str) -> Mapping[str, str]:
    """What the page has now, by the heading of each system."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    blocks: dict[str, str] = {}
    for block in filter(None, text.strip().split("\n\n**")):
        name = block.removeprefix("**").partition("**")[0]
        blocks[name] = "**" + block.removeprefix("**")
    return blocks


def main() -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=[path.stem for path in files()], help="files to play")
    parser.add_argument("--row", action="append", default=[], metavar="NAME", help="rows of these names only")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/simulator.md")
    given: Any = parser.parse_args()
    chosen = [path for path in files() if not given.only or path.stem in given.only]
    played = {path: [row for row in rows(path) if not given.row or row.name in given.row] for path in chosen}
    if missing := set(given.row) - {row.name for found in played.values() for row in found}:
        parser.error(f"no row of the files is named {', '.join(sorted(missing))}")
    found: list[tuple[Row, float]] = []
    lines: dict[Row, str] = {}
    for row in (row for of_file in played.values() for row in of_file):
        ours = measured(row)
        found.append((row, ours))
        lines[row] = line(row, ours)
        sys.stdout.write(lines[row] + "\n")
        sys.stdout.flush()
    if given.write:
        write(lines)
    wrong = faults(found)
    for text in wrong:
        sys.stderr.write(text + "\n")
    within = sum(row.within(ours) for row, ours in found)
    sys.stdout.write(f"{within} of {len(found)} figures within their bounds\n")
    return 1 if wrong else 0


def write(lines: Mapping[Row, str]) -> None:
    """Put these lines into the page; it is read now, since other commands may have written while rows were played."""
    page = PAGE.read_text(encoding="utf-8")
    old = kept(page)
    blocks = []
    for path in files():
        title = yaml.safe_load(path.read_text(encoding="utf-8"))["title"]
        blocks.append(block(path, lines, old.get(title, "")))
    PAGE.write_text(replaced(page, "\n\n".join(blocks)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
