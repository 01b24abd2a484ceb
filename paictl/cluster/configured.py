"""A version of the configuration as the scheduler and those who take jobs read it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from paictl.cluster.values import ClusterError, ConflictError
from paictl.frozen import frozen_caching
from paictl.i18n import text

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.workload.feasible import Judge
    from paictl.workload.sharing import Sharing
    from paictl.workload.supply import Supply


@frozen_caching
class ConfigSnapshot:
    """One version: file name → text."""

    number: int
    files: Mapping[str, str]

    @cached_property
    def spec(self) -> ClusterSpec:
        """The cluster that the hivedscheduler configuration describes; raises `PaictlError` if there is none."""
        from paictl.cells.spec import ClusterSpec  # late: who only looks at jobs needs no configuration
        from paictl.config.reading.kinds import FileKind
        from paictl.config.reading.load import load_memory

        loaded = load_memory(self.files)
        documents = [document for document in loaded.documents if document.kind is FileKind.HIVED]
        if not documents or not isinstance(documents[0].data, dict):
            raise ClusterError(
                "it has no hivedscheduler configuration",
                where=f"configuration {self.number}",
                hint="push a services-configuration.yaml that has a hivedscheduler section",
            )
        return ClusterSpec.from_mapping(documents[0].data)

    @property
    def bad_device_deadline(self) -> float | None:
        """Seconds for which one of its devices may be bad before a gang starts again elsewhere; None: for ever."""
        from paictl.config.models.services import STANDARD_NAME
        from paictl.config.reading.load import load_memory

        content = self.files.get(STANDARD_NAME, "")
        if "bad-device-deadline" not in content:  # as in most files, and to read one takes its time
            return None
        for document in load_memory({STANDARD_NAME: content}).documents:
            section = document.data.get("hivedscheduler") if isinstance(document.data, dict) else None
            setting = section.get("bad-device-deadline", "never") if isinstance(section, dict) else "never"
            try:
                return None if setting == "never" else float(str(setting))
            except ValueError:
                raise ClusterError(
                    text("{said!r} is not a number of seconds", said=setting),
                    where=f"{STANDARD_NAME}: hivedscheduler.bad-device-deadline",
                    hint="write a number, or never",
                ) from None
        return None

    @cached_property
    def sharing(self) -> Sharing:
        """What the section `sharing` says; raises `PaictlError` if it cannot be read."""
        from paictl.config.models.services import STANDARD_NAME
        from paictl.config.reading.load import load_memory
        from paictl.workload.budgets import SECTION
        from paictl.workload.sharing import Sharing, read_sharing

        content = self.files.get(STANDARD_NAME, "")
        # every command of a cluster on this machine asks, and most files have no such section
        if SECTION not in content:
            return Sharing()
        document = next(iter(load_memory({STANDARD_NAME: content.encode()}).documents), None)
        data = document.data if document is not None and isinstance(document.data, dict) else {}
        return read_sharing(data.get(SECTION), f"{STANDARD_NAME}: {SECTION}")

    @cached_property
    def supply(self) -> Supply:
        """What jobs can ask for."""
        from paictl.workload.supply import Supply

        return Supply.from_spec(self.spec)

    @cached_property
    def judge(self) -> Judge:
        """Who says whether a job can ever run."""
        from paictl.workload.feasible import Judge

        return Judge(self.spec, self.supply)


def no_version(number: int | None, newest: int) -> ClusterError:
    """The error for a version that is not there; `newest` is 0 where there is none at all."""
    if not newest:
        return ClusterError("no configuration has been pushed yet", hint="paictl config push -p DIR")
    return ClusterError(
        text("no version {number}", number=number),
        hint=text("the newest is {newest}; see: paictl config history", newest=newest),
    )


def moved_on(newest: int) -> ConflictError:
    """The error for a push that was made from another version than the newest."""
    now = f"its newest version is {newest}" if newest else "all versions are gone"
    return ConflictError(
        text("the configuration has changed since: {now}", now=now), hint="review the change, then push again"
    )


def account_there(name: str) -> ConflictError:
    """The error for an account that is to be made and is there."""
    return ConflictError(text("user {name!r} already exists", name=name), hint="list them with: paictl user list")


def account_changed(name: str) -> ConflictError:
    """The error for an account that is not any more as it was read."""
    return ConflictError(text("user {name!r} has been changed since", name=name), hint="look, and do it again")
