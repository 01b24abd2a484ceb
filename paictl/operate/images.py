"""The images of jobs with the plugin `image_checker`: asked for in their registries before the jobs are submitted."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from paictl.i18n import text
from paictl.remote.registry import ImageState, image_state
from paictl.workload.fields import JobError
from paictl.workload.plugins import ImageCheck

LIMIT: Final = 5.0
"""Seconds for each of at most three requests of a registry."""
_TOGETHER: Final = 8


def check_images(checks: Sequence[tuple[int, ImageCheck]]) -> list[str]:
    """Ask for all images at once, each with the number of its request; what to say of those that no registry would
    tell about.

    Raises `JobError` at the first image that is not there, or that the login of the job does not open.
    """
    answers: dict[ImageCheck, Future[tuple[ImageState, str]]] = {}
    with ThreadPoolExecutor(_TOGETHER, "paictl-images") as pool:
        for _, check in checks:
            if (key := _key(check)) not in answers:
                answers[key] = pool.submit(
                    image_state,
                    check.image,
                    service=check.service,
                    user=check.user,
                    password=check.password,
                    timeout=LIMIT,
                )
    unknown: dict[str, str] = {}
    for number, check in checks:
        state, reason = answers[_key(check)].result()
        if state is ImageState.UNKNOWN:
            unknown[check.image] = text(
                "image {image} could not be checked: {reason}", image=check.image, reason=reason
            )
        elif state is not ImageState.THERE:
            raise _refusal(check, state, number)
    return list(unknown.values())


def _key(check: ImageCheck) -> ImageCheck:
    """The same question, wherever in a file it is asked."""
    return ImageCheck(check.image, "", check.service, check.user, check.password)


def _refusal(check: ImageCheck, state: ImageState, number: int) -> JobError:
    if state is ImageState.MISSING:
        message = text("its registry has no image {image}", image=check.image)
        error = JobError(check.where, message, hint=text("check the name and the tag"))
    else:
        message = text("the registry does not let this job pull image {image}", image=check.image)
        hint = text("check user and password in auth; some registries also answer this way if the image does not exist")
        if not check.user:
            hint = text("a private image needs auth; some registries also answer this way if the image does not exist")
        error = JobError(check.where, message, hint=hint)
    error.request = number
    return error
