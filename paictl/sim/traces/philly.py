"""Microsoft's Philly (ATC'19) in its various published forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from paictl import i18n
from paictl.sim.job import BadRow, Job, TraceStatus
from paictl.sim.traces.base import FileHead, Format, Rows, has
from paictl.sim.traces.lines import SECOND, Line, RowError, date, table
from paictl.sim.traces.profiles import parsed
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis


def _read_table(source: TraceFile) -> Rows:
    numbers = count()

    def row(line: Line) -> Job:
        return Job(
            id=str(next(numbers)),
            submit=line.date("timestamp"),
            gpus=line.whole("num_gpus", 1),
            work=line.span("duration", SECOND, 1),
            vc=line.get("cluster"),
        )

    return table(source, row)


def _read_pcs(source: TraceFile) -> Rows:
    # PCS measures in GPU seconds: `service` is what one device would need, `num_jobs` how many it runs on.
    vc = re.sub(r".*trace_|\.csv.*", "", source.name.rsplit("/", 1)[-1])

    def row(line: Line) -> Job:
        gpus = line.whole("num_jobs", 1)
        service = line.span("service", SECOND, 1)
        return Job(
            id=line.text("app_id"),
            submit=line.span("submit_time", SECOND),
            gpus=gpus,
            work=Millis(max(1, round(service / gpus))),
            vc=vc,
            model=line.get("model_name"),
        )

    return table(source, row)


# --- the original, cluster_job_log of msr-fiddle/philly-traces


def _read_log(source: TraceFile) -> Rows:
    entries = parsed(source)
    if not isinstance(entries, list):
        raise TraceError("expected a list of jobs", where=source.name, hint="the file is cluster_job_log")
    lines = _starts(source.text(), len(entries))
    for line, entry in zip(lines, entries, strict=True):
        try:
            yield line, _logged(entry)
        except RowError as error:
            yield BadRow(line, str(error))
        except (AttributeError, KeyError, TypeError) as error:
            yield BadRow(
                line,
                i18n.text("is not a job of cluster_job_log: {kind} {reason}", kind=type(error).__name__, reason=error),
            )


def _logged(entry: Any) -> Job:
    """One job, with the devices of its largest attempt, and the total time of all attempts."""
    spans, gpus = [], 0
    for attempt in entry["attempts"]:
        start, end = attempt["start_time"], attempt["end_time"]
        if start in _UNKNOWN or end in _UNKNOWN:
            continue
        spans.append(date(end, "end_time") - date(start, "start_time"))
        gpus = max(gpus, sum(len(server["gpus"]) for server in attempt["detail"]))
    if gpus < 1:
        raise RowError(i18n.text("no attempt with a start, an end and devices"))
    work = sum(spans)
    if min(spans) < 0 or work < 1:
        raise RowError(i18n.text("its attempts took no time"))
    return Job(
        id=str(entry["jobid"]),
        submit=date(entry["submitted_time"], "submitted_time"),
        gpus=gpus,
        work=Millis(work),
        vc=str(entry["vc"]),
        user=str(entry.get("user", "")),
        fate=_FATES.get(str(entry["status"]), TraceStatus.PASSED),
    )


_UNKNOWN = (None, "", "None")
_FATES = {"Killed": TraceStatus.KILLED, "Failed": TraceStatus.FAILED}


def _starts(text: str, entries: int) -> Iterator[int]:
    """The line on which each element of a JSON list begins."""
    decoder, place, line, counted_to = json.JSONDecoder(), text.index("[") + 1, 1, 0
    for _ in range(entries):
        while text[place] in " \t\r\n,":
            place += 1
        line, counted_to = line + text.count("\n", counted_to, place), place
        yield line
        place = decoder.raw_decode(text, place)[1]


def _tells_log(head: FileHead) -> bool:
    return head.start.lstrip().startswith("[") and '"attempts"' in head.start and '"jobid"' in head.start


PHILLY = Format(
    "philly",
    "Philly in the form of Pollux' artifact",
    "s, dates",
    "timestamp, duration, num_gpus; cluster (the VC)",
    "petuum/adaptdl osdi21-artifact; data msr-fiddle/philly-traces, CC-BY-4.0",
    has("timestamp", "duration", "num_gpus"),
    _read_table,
)
PCS = Format(
    "philly-pcs",
    "Philly by VC in the form of PCS",
    "s",
    "app_id, submit_time, service (GPU seconds), num_jobs (GPUs); model_name",
    "abdullahfsm/PCS, MIT; data CC-BY-4.0",
    has("app_id", "submit_time", "service", "num_jobs"),
    _read_pcs,
)
PHILLY_LOG = Format(
    "philly-log",
    "Philly's original cluster_job_log",
    "dates",
    "JSON list of {jobid, vc, status, submitted_time, attempts}",
    "msr-fiddle/philly-traces, CC-BY-4.0",
    _tells_log,
    _read_log,
    published=False,
)
