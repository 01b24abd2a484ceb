"""The configuration file: validated as `paictl config validate` does, and read again when it changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from paictl.cells.spec import ClusterSpec
from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.validate import Choice, validate
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load
from paictl.config.reading.problem import Severity
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen


class FindingsError(PaictlError):
    """The file does not validate; `report` is what the validator says."""

    exit_code = ExitCode.NEGATIVE

    def __init__(self, path: Path, report: str) -> None:
        super().__init__(
            "the configuration does not validate", where=str(path),
            hint=f"paictl config validate {path} shows the same",
        )  # fmt: skip
        self.report = report


@frozen
class ExtenderConfiguration:
    """What a file says, and the digest of its bytes."""

    spec: ClusterSpec
    digest: str
    text: str
    """The hivedscheduler configuration alone: a services-configuration.yaml has secrets of other services."""


def digest_of(path: Path) -> str:
    """The digest of a file's bytes, empty if it cannot be read now."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def read(path: Path) -> ExtenderConfiguration:
    """Read a services-configuration.yaml or hivedscheduler.yaml.

    Raises `FindingsError` if it has errors, `PaictlError` if it cannot be read or holds no hivedscheduler section.
    """
    digest = digest_of(path)
    loaded = load([str(path)], None)
    report = validate(loaded, Choice((), (), Severity.ERROR))
    for failure in report.failures:
        raise failure
    if report.exit_code != ExitCode.OK:
        raise FindingsError(path, plain(FORMATS["text"](report)).rstrip())
    found = [document for document in loaded.documents if document.kind is FileKind.HIVED]
    if not found or not isinstance(found[0].data, dict):
        raise PaictlError(
            "there is no hivedscheduler configuration in it", where=str(path),
            hint="give a hivedscheduler.yaml, or a services-configuration.yaml with a hivedscheduler section",
        )  # fmt: skip
    return ExtenderConfiguration(ClusterSpec.from_mapping(found[0].data), digest, found[0].source.text)
