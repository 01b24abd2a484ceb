"""How long jobs of virtual clusters may run: the list `run-times` in the section `sharing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis, span_text
from paictl.workload.fields import JobError
from paictl.workload.runlimits import limit_of

if TYPE_CHECKING:
    from paictl.workload.job import Job

FIELD: Final = "extras.maxRunTime"


@frozen
class RunTimeRule:
    """What one virtual cluster demands; None: nothing."""

    most: Millis | None = None
    default: Millis | None = None
    required: bool = False


@frozen
class RunTimeRules:
    """The rules of all virtual clusters that have some."""

    by_vc: Mapping[str, RunTimeRule] = field(default_factory=dict)

    @classmethod
    def read(cls, rows: Iterable[Mapping[str, Any]], where: str) -> RunTimeRules:
        """The rules of the list `run-times` at `where`; raises `PaictlError` naming the key that has no meaning."""
        rules: dict[str, RunTimeRule] = {}
        for number, row in enumerate(rows, 1):
            spans: dict[str, Millis] = {}
            for key in ("max", "default"):
                if key in row:
                    try:
                        spans[key] = limit_of(row[key])
                    except PaictlError as error:
                        error.where = f"{where}, entry {number}: {key}"
                        raise
            most = spans.get("max")
            rule = RunTimeRule(most, spans.get("default", most), row.get("required") is True)
            if rule != RunTimeRule():
                rules[str(row["vc"])] = rule
        return cls(rules)

    def limited(self, job: Job) -> Job:
        """The job with the limit that it has in its virtual cluster.

        Raises `JobError` for a job that says none where it must, or asks for more than it may.
        """
        rule = self.by_vc.get(job.vc)
        if rule is None:
            return job
        if job.max_run_time is None:
            if rule.required:
                raise JobError(
                    FIELD,
                    text("jobs in virtual cluster {vc} must set a maximum run time", vc=job.vc),
                    hint=text("for instance maxRunTime: {span}", span=span_text(rule.most or Millis(7_200_000))),
                )
            return replace(job, max_run_time=rule.default)
        if rule.most is not None and job.max_run_time > rule.most:
            raise JobError(
                FIELD,
                text("{span} exceeds the limit of virtual cluster {vc}", span=span_text(job.max_run_time), vc=job.vc),
                hint=text("at most {span}", span=span_text(rule.most)),
            )
        return job
