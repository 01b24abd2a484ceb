"""Use cases: what a push, a submit, a service verb or a change of a node *does*, with typed results.

One function a use case; it takes the ports of a cluster that it needs and plain values, and gives back what happened as
data. The command line, labs and servers render it. A use case must never print, ask a question, or know what kind of
cluster it works on; where somebody has to agree first, planning and doing are two functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.errors import PaictlError

if TYPE_CHECKING:
    from paictl.config.linting.validate import Report


class RefusedFilesError(PaictlError):
    """Files with errors; `report` says which, line by line."""

    def __init__(self, message: str, report: Report, *, hint: str, where: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.report = report
