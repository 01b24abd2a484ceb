"""The plugins of OpenPAI's runtime that a job names, the commands of `cmd`, the images that `image_checker` asks for.

OpenPAI has them in two places: ``extras["com.microsoft.pai.runtimeplugin"]``, for all task roles or those it names, and
in prerequisites that a role names (``prerequisites``) or that one of these needs (``require``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import Fields, JobError, suggestion
from paictl.workload.template import Values

PLUGINS: Final = "com.microsoft.pai.runtimeplugin"
"""Key of `extras`; also the beginning of a plugin's name in a prerequisite."""
CMD: Final = "cmd"
SSH: Final = "ssh"
TENSORBOARD: Final = "tensorboard"
STORAGE: Final = "teamwise_storage"
IMAGE_CHECKER: Final = "image_checker"
GIT: Final = "git"
KNOWN: Final = (CMD, SSH, TENSORBOARD, STORAGE, IMAGE_CHECKER, GIT)
"""The plugins that OpenPAI's runtime has; `config validate` says which of them do nothing here."""


@frozen
class Plugin:
    """A plugin as a job names it; `roles` are the task roles that it is for, none: all."""

    name: str
    fields: Fields
    roles: tuple[str, ...]

    def parameters(self, known: frozenset[str]) -> Fields:
        """Its parameters, empty where there are none; raises `JobError` for one that the plugin does not have."""
        return self.fields.mapping("parameters", known)


def plugins_of(job: Fields) -> Iterator[Plugin]:
    """The plugins of a job in the order of the file, unknown ones among them."""
    for i, item in enumerate(job.mapping("extras").items(PLUGINS)):
        fields = Fields(item, f"extras[{PLUGINS!r}][{i}]")
        yield Plugin(fields.text("plugin"), fields, fields.texts("taskRoles"))


def refuse_unknown(job: Fields) -> None:
    """Raise `JobError` for a plugin that OpenPAI's runtime does not have.

    Asked when a job is submitted, not when it is read: jobs that were taken by an earlier version stay readable.
    """
    for plugin in plugins_of(job):
        if plugin.name not in KNOWN:
            hint = suggestion(plugin.name, KNOWN, "plugins")
            raise plugin.fields.error("plugin", text("no runtime plugin {name!r}", name=plugin.name), hint=hint)


BEFORE: Final = "taskStarts"
AFTER: Final = "taskSucceeds"
EVENTS: Final = (BEFORE, AFTER)
POLICIES: Final = ("fail", "ignore")


@frozen
class Callback:
    """A command of a plugin: where it is in the file, and whether the task continues if it fails."""

    path: str
    command: str
    event: str
    ignored: bool = False

    def shell(self, command: str) -> str:
        """The command, with its templates filled in, as the shell runs it; one that is ignored cannot end the task."""
        return f"(\n{command}\n) || true" if self.ignored else command


def callbacks_of(job: Fields, role: str, wanted: Sequence[str]) -> list[Callback]:
    """The callbacks of a task role that names the prerequisites `wanted`, in the order in which they run.

    Raises `JobError` for an event or a policy that there is none of, and for a prerequisite that is not there.
    """
    callbacks: list[Callback] = []
    for fields in _prerequisites(job, role, wanted):
        if fields.optional_text("plugin") == f"{PLUGINS}.{CMD}":
            callbacks += _read(fields, fields)
    for plugin in plugins_of(job):
        if plugin.name == CMD and role in (plugin.roles or (role,)):
            callbacks += _read(plugin.fields, plugin.fields.mapping("parameters"))
    return callbacks


def _prerequisites(job: Fields, role: str, wanted: Sequence[str]) -> Iterator[Fields]:
    """Those that a role names, each behind those that it needs, and once."""
    known: dict[str, Fields] = {}
    for i, item in enumerate(job.items("prerequisites")):
        fields = Fields(item, f"prerequisites[{i}]")
        known.setdefault(fields.text("name"), fields)
    done: set[str] = set()
    begun: list[tuple[Fields, Iterator[tuple[str, str]]]] = []
    """Each with the names of those that it needs yet; a list, because a chain may be longer than Python's stack."""

    def begin(name: str, where: str) -> None:
        if name not in known:
            raise JobError(
                where, text("no prerequisite {name}", name=name), hint=suggestion(name, known, "prerequisites")
            )
        if name not in done:
            done.add(name)
            needs, at = known[name].texts("require"), known[name].at("require")
            begun.append((known[name], ((other, f"{at}[{i}]") for i, other in enumerate(needs))))

    for i, name in enumerate(wanted):
        begin(name, f"taskRoles.{role}.prerequisites[{i}]")
        while begun:
            fields, needs = begun[-1]
            if (need := next(needs, None)) is not None:
                begin(*need)
            else:
                begun.pop()
                yield fields


def _read(plugin: Fields, holder: Fields) -> Iterator[Callback]:
    policy = plugin.text("failurePolicy", "fail")
    if policy not in POLICIES:
        hint = suggestion(policy, POLICIES, "policies")
        raise plugin.error("failurePolicy", text("no failure policy {policy}", policy=policy), hint=hint)
    for i, item in enumerate(holder.items("callbacks")):
        fields = Fields(item, f"{holder.at('callbacks')}[{i}]")
        event = fields.text("event")
        if event not in EVENTS:
            raise fields.error("event", text("no event {event}", event=event), hint=suggestion(event, EVENTS, "events"))
        for j, command in enumerate(fields.texts("commands")):
            yield Callback(f"{fields.at('commands')}[{j}]", command, event, policy == "ignore")


def commands_around(
    callbacks: Sequence[Callback], own: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Callback]]:
    """All commands of a task by path: callbacks before, the task's own, callbacks after; and the callbacks."""
    before = {callback.path: callback.command for callback in callbacks if callback.event == BEFORE}
    after = {callback.path: callback.command for callback in callbacks if callback.event == AFTER}
    return {**before, **own, **after}, {callback.path: callback for callback in callbacks}


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
                image.text("uri"),
                image.at("uri"),
                service or (own if own.startswith("http") else ""),
                str(auth.get("username") or ""),
                password,
            )
