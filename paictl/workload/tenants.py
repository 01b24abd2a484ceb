"""What virtual clusters demand of the run times of their jobs: the section `tenants` of services-configuration.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis, span_text
from paictl.workload.fields import JobError
from paictl.workload.runlimits import limit_of

if TYPE_CHECKING:
    from paictl.workload.job import Job

SECTION: Final = "tenants"
"""The section of services-configuration.yaml with the rules of virtual clusters."""
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
    def read(cls, section: object, where: str) -> RunTimeRules:
        """The rules of a section `tenants`; raises `PaictlError` naming the key that has no meaning."""
        found: dict[str, RunTimeRule] = {}
        for vc, said in section.items() if isinstance(section, Mapping) else ():
            keys = said if isinstance(said, Mapping) else {}
            spans: dict[str, Millis] = {}
            for key in ("max-run-time", "default-run-time"):
                if key in keys:
                    try:
                        spans[key] = limit_of(keys[key])
                    except PaictlError as error:
                        error.where = f"{where}: {SECTION}.{vc}.{key}"
                        raise
            required = keys.get("require-run-time") is True
            if spans or required:
                most = spans.get("max-run-time")
                found[str(vc)] = RunTimeRule(most, spans.get("default-run-time", most), required)
        return cls(found)

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
                    FIELD, text("jobs in virtual cluster {vc} must set a maximum run time", vc=job.vc),
                    hint=text("for instance maxRunTime: {span}", span=span_text(rule.most or Millis(7_200_000))),
                )  # fmt: skip
            return replace(job, max_run_time=rule.default)
        if rule.most is not None and job.max_run_time > rule.most:
            raise JobError(
                FIELD,
                text("{span} exceeds the limit of virtual cluster {vc}", span=span_text(job.max_run_time), vc=job.vc),
                hint=text("at most {span}", span=span_text(rule.most)),
            )
        return job
