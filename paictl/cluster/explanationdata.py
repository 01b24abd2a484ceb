"""An explanation as JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from paictl.cluster.scheduling import ClosingWindow, JobExplanation, JobSituation, LatestStart
from paictl.cluster.values import JobState
from paictl.scheduler.explain.data import from_data as explanation_from
from paictl.scheduler.explain.data import to_data as explanation_data
from paictl.workload.lentorder import LineAhead


def to_data(explanation: JobExplanation) -> dict[str, Any]:
    """An explanation as JSON values, all of it: how it crosses a wire."""
    scheduler = None if explanation.scheduler is None else explanation_data(explanation.scheduler)
    return {**asdict(replace(explanation, scheduler=None)), "scheduler": scheduler}


def from_data(data: Mapping[str, Any]) -> JobExplanation:
    """The inverse of `to_data`; raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    scheduler = None if data["scheduler"] is None else explanation_from(data["scheduler"])
    words = {"state": JobState(data["state"]), "situation": JobSituation(data["situation"])}
    windows = tuple(ClosingWindow(**{**row, "nodes": tuple(row["nodes"])}) for row in data.get("windows", ()))
    entry = data.get("start")
    start = (
        None
        if entry is None
        else LatestStart(
            entry["at"],
            tuple((job, at) for job, at in entry["ends"]),
            tuple(entry["unlimited"]),
            entry.get("place", 0),
            entry.get("behind", 0),
        )
    )
    first = data.get("ahead")
    ahead = None if first is None else LineAhead(**first)
    return JobExplanation(
        **{**data, **words, "scheduler": scheduler, "windows": windows, "start": start, "ahead": ahead}
    )
