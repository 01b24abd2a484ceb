"""Jobs that are submitted from files, and what to say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from paictl.cluster.interface import JobRequest, JobView
from paictl.frozen import frozen
from paictl.operate.jobfiles import SubmitOptions, place_of_field, requests_in
from paictl.workload.fields import Fields, JobError
from paictl.workload.plugins import image_checks

if TYPE_CHECKING:
    from paictl.config.reading.problem import Problem
    from paictl.workload.plugins import ImageCheck


@frozen
class Submitted:
    """Jobs that were taken, in order, and what is most likely a mistake in their files.

    `unchecked` says of which images no registry would tell whether they are there.
    """

    jobs: tuple[JobView, ...]
    warnings: tuple[Problem, ...]
    unchecked: tuple[str, ...] = ()


class SubmitPorts(Protocol):
    """What takes jobs."""

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take them all, or none."""


def submit(
    cluster: SubmitPorts,
    paths: Iterable[str],
    user: str,
    options: SubmitOptions | None = None,
    read: Mapping[str, Mapping[str, object]] | None = None,
) -> Submitted:
    """Submit the jobs of some files (a folder: all below it) as `user`: all or none; `read` as in `requests_in`.

    Raises `RefusedFilesError` for a file with errors, `PaictlError` for one without a job, `ClusterError` for what the
    cluster refuses.
    """
    warnings: list[Problem] = []
    files, options = list(paths), options or SubmitOptions()
    requests = list(requests_in(files, user, options, warnings.append, read))
    try:
        unchecked = _check_images(requests)
        return Submitted(tuple(cluster.submit(requests)), tuple(warnings), tuple(unchecked))
    except JobError as error:
        if options.vc is not None and error.path == "defaults.virtualCluster":
            error.where = "--vc"  # the file says something else, and may be right
        elif not read:
            error.where = place_of_field(files, options.repeat, error) or error.where
        raise


def _check_images(requests: Iterable[JobRequest]) -> list[str]:
    """What to say of images that no registry would tell about; raises `JobError` for one that is not there."""
    checks: list[tuple[int, ImageCheck]] = []
    for number, request in enumerate(requests):
        try:
            checks += ((number, check) for check in image_checks(Fields(request.data, "")))
        except JobError as error:
            error.request = number
            raise
    if not checks:
        return []
    from paictl.operate.images import check_images  # late: few jobs have registries asked, which takes an HTTP client

    return check_images(checks)
