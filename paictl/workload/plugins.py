"""The plugins of OpenPAI's runtime that a job names, under ``extras["com.microsoft.pai.runtimeplugin"]``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import Fields, suggestion

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
    """The plugins of a job in the order of the file, those that nobody knows among them."""
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
