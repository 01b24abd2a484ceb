"""A job beside the hivedscheduler configuration that it is to run under.

What a pod needs and whether it fits is the arithmetic of `paictl.workload`, the same that `job submit` goes by. Here a
job is only read as if its mistakes were repaired, and errors are led back to where they stand in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paictl.cells.spec import ClusterSpec, SpecError
from paictl.config.models import per_document
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_promises import VirtualCluster
from paictl.config.models.job import JobRole, JobSpec, job_of
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.frozen import frozen
from paictl.workload.feasible import Judge, Refusal
from paictl.workload.fields import JobError
from paictl.workload.job import (
    DEFAULT_PRIORITY_CLASS,
    DEFAULT_VC,
    PRIORITIES,
    Completion,
    HivedExtras,
    Resources,
    TaskRole,
)
from paictl.workload.job import Job as Workload
from paictl.workload.pods import check_number, plan_job
from paictl.workload.sku import lacking, smallest
from paictl.workload.supply import Supply, leaf_types
from paictl.workload.terms import agree

if TYPE_CHECKING:
    from paictl.config.reading.nodes import ScalarNode


@frozen
class Submission:
    """A job and the cluster that it is for; `vc` is None where the cluster does not have it.

    `judge` is None where the cluster's configuration has mistakes that leave open what jobs find there.
    """

    job: JobSpec
    cluster: HivedConfig
    vc: VirtualCluster | None
    judge: Judge | None

    @property
    def vc_name(self) -> str:
        """The VC that the job asks for."""
        return self.job.virtual_cluster.text if self.job.virtual_cluster else DEFAULT_VC

    @property
    def clear(self) -> bool:
        """Whether everything that the VC is promised is understood; if not, nothing can be said about its types."""
        promises = self.vc.promises if self.vc else ()
        return bool(promises) and all(
            promise.chain and promise.chain.countable and promise.level for promise in promises
        )

    @property
    def sku_names(self) -> set[str]:
        """Device types that the VC has."""
        return {
            promise.chain.leaf_type for promise in (self.vc.promises if self.vc else ()) if promise.chain is not None
        }

    def misfits(self) -> Iterator[tuple[JobRole, JobError]]:
        """Task roles that find no cells with all that they ask for, each by itself."""
        if self.judge is None or self.vc is None:
            return
        job = self.workload()
        for role in job.roles:
            try:
                agree(job, self.judge.supply, (role,))
            except JobError as error:
                yield self.job.roles[role.name], error

    def lacking_somewhere(self, role: JobRole) -> tuple[str, ...]:
        """What a role without wishes asks for and one of the types that it may get has nothing of.

        OpenPAI's server reckons with the least of all types of the VC, and refuses such a job; ours keeps it off those.
        """
        if self.judge is None or self.vc is None or role.sku is not None or role.pin is not None:
            return ()
        supply = self.judge.supply
        names = leaf_types(supply.views(self.vc_name, opportunistic=self.job.opportunistic))
        skus = [supply.skus[name] for name in names if name in supply.skus]
        return lacking(smallest(skus), _task_role(role).resources) if skus else ()

    def too_many(self) -> tuple[JobRole, JobError] | None:
        """The largest role of a job with more tasks than a cluster is ever asked to hold, and what is said of it."""
        job = self.workload()
        if self.judge is not None:
            try:
                check_number(job, self.judge.supply)
            except JobError as error:
                return self.job.roles[max(job.roles, key=lambda role: role.instances).name], error
        return None

    def refusals(self) -> Iterator[Refusal]:
        """Why the job can never run, if its roles find cells at all."""
        if self.judge is None or self.vc is None or not self.job.roles:
            return
        try:
            yield from self.judge.refusals(plan_job(self.workload(), self.judge.supply, "user"))
        except (JobError, SpecError):
            return

    def workload(self) -> Workload:
        """The job as the scheduler would see it once what is wrong with it is repaired."""
        priority = self.job.hived.text("jobPriorityClass")
        name = self.job.top.text("name")
        return Workload(
            name=name.text if name else "job",
            vc=self.vc_name,
            priority_class=priority.text if priority and priority.text in PRIORITIES else DEFAULT_PRIORITY_CLASS,
            roles=tuple(_task_role(role) for role in self.job.roles.values()),
            retry_count=0,
            gang=self.job.gang,
        )


def _task_role(role: JobRole) -> TaskRole:
    amounts = (max(role.resources.integer(key) or 0, 0) for key in ("gpu", "cpu", "memoryMB"))
    wishes = HivedExtras(_text(role.sku), _text(role.pin), _text(role.group))
    return TaskRole(role.name, role.instances, Resources(*amounts), "", (), Completion(None, None), 0, wishes)


def _text(at: ScalarNode | None) -> str | None:
    return at.text if at is not None and at.text else None


@per_document
def submissions(bundle: Bundle) -> list[Submission]:
    """The jobs of a bundle with its only hivedscheduler configuration; empty where there is none or several."""
    document = bundle.only(FileKind.HIVED)
    if document is None:
        return []
    cluster = hived(document)
    if not cluster.vcs:
        return []
    by_name = {vc.name: vc for vc in cluster.vcs}
    jobs = [job_of(document) for document in bundle.of(FileKind.JOB)]
    judge = _judge(document) if jobs else None
    asked = ((job, job.virtual_cluster.text if job.virtual_cluster else DEFAULT_VC) for job in jobs)
    return [Submission(job, cluster, by_name.get(name), judge) for job, name in asked]


@per_document
def _judge(document: Document) -> Judge | None:
    """What says whether jobs can run under a configuration; None for one that no scheduler would start with."""
    data = document.data
    try:
        spec = ClusterSpec.from_mapping(data if isinstance(data, dict) else {})
        return Judge(spec, Supply.from_spec(spec))
    except SpecError:
        return None
