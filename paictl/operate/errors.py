"""Errors of use cases that carry data: what is to be shown beside the message."""

from __future__ import annotations

from paictl.config.linting.validate import Report
from paictl.errors import PaictlError


class RefusedFilesError(PaictlError):
    """Files with errors; `report` says which, line by line."""

    def __init__(self, message: str, report: Report, *, hint: str, where: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.report = report
