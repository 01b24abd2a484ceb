"""A version of the configuration as the scheduler and those who take jobs read it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from paictl.cells.spec import ClusterSpec
from paictl.cluster.values import ClusterError
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.frozen import frozen_caching
from paictl.i18n import text
from paictl.workload.budgets import SECTION
from paictl.workload.sharing import Sharing, read_sharing
from paictl.workload.supply import Supply

if TYPE_CHECKING:
    from paictl.workload.feasible import Judge


@frozen_caching
class ConfigSnapshot:
    """One version: file name → text."""

    number: int
    files: Mapping[str, str]

    @cached_property
    def spec(self) -> ClusterSpec:
        """The cluster that the hivedscheduler configuration describes; raises `PaictlError` if there is none."""
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
        return Supply.from_spec(self.spec)

    @cached_property
    def judge(self) -> Judge:
        """Who says whether a job can ever run."""
        from paictl.workload.feasible import Judge  # late: only who takes jobs asks it

        return Judge(self.spec, self.supply)
