"""The runtime's plugin `image_checker`: which images of a job registries are asked for before it is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import Fields
from paictl.workload.plugins import IMAGE_CHECKER, plugins_of
from paictl.workload.template import Values

SERVICE_URL: Final = "docker_registry_service_url"
"""Parameter: where the registry answers, if not at the host that the image names."""
_PARAMETERS: Final = frozenset({SERVICE_URL})


@frozen
class ImageCheck:
    """An image to ask for, at the field `where`; with a login, at `service` if it is not the image's own registry."""

    image: str
    where: str
    service: str = ""
    user: str = ""
    password: str = field(default="", repr=False)


def image_checks(job: Fields) -> tuple[ImageCheck, ...]:
    """The images of the task roles that the plugin is for, each once; raises `JobError` for a wrong parameter."""
    checks: dict[str, ImageCheck] = {}
    for plugin in plugins_of(job):
        if plugin.name != IMAGE_CHECKER:
            continue
        parameters = plugin.parameters(_PARAMETERS)
        service = parameters.optional_text(SERVICE_URL) or ""
        if service and not service.startswith(("https://", "http://")):
            raise parameters.error(SERVICE_URL, text("expected an address that begins with https://"))
        for check in _of_roles(job, plugin.roles, service):
            checks.setdefault(check.where, check)
    return tuple(checks.values())


def _of_roles(job: Fields, roles: tuple[str, ...], service: str) -> Iterator[ImageCheck]:
    wanted = {
        Fields(role, f"taskRoles.{name}").optional_text("dockerImage")
        for name, role in job.mapping("taskRoles").values.items()
        if not roles or name in roles
    }
    values = Values({"secrets": job.mapping("secrets").values})
    for i, item in enumerate(job.items("prerequisites")):
        image = Fields(item, f"prerequisites[{i}]")
        if image.optional_text("name") in wanted and image.optional_text("type") == "dockerimage":
            auth = image.mapping("auth")
            template = auth.get("password")
            password = values.render(template, auth.at("password"))[0] if isinstance(template, str) else ""
            own = str(auth.get("registryuri") or "")
            yield ImageCheck(
                image.text("uri"), image.at("uri"), service or (own if own.startswith("http") else ""),
                str(auth.get("username") or ""), password,
            )  # fmt: skip
