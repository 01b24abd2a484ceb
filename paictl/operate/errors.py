"""Errors of use cases that carry data: what is to be shown beside the message."""

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
