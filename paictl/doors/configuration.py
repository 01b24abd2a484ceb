"""The configuration file: validated as `paictl config validate` does, and read again when it changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

import yaml

from paictl.cells.spec import ClusterSpec
from paictl.cluster.devices.support import DeviceMode, read_options
from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.validate import Choice, validate
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load
from paictl.config.reading.problem import Severity
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.budgets import SECTION
from paictl.workload.sharing import Sharing, read_sharing


class FindingsError(PaictlError):
    """The file does not validate; `report` is the validator's report."""

    exit_code = ExitCode.NEGATIVE

    def __init__(self, path: Path, report: str) -> None:
        super().__init__(
            "the configuration does not validate",
            where=str(path),
            hint=f"paictl config validate {path} shows the same",
        )
        self.report = report


@frozen
class ExtenderConfiguration:
    """The contents of a configuration file, and the digest of its bytes."""

    spec: ClusterSpec
    digest: str
    text: str
    """The hivedscheduler configuration alone: a services-configuration.yaml has secrets of other services."""
    sharing: Sharing = field(default_factory=Sharing)
    """Budgets and limits for users."""
    shared: str = ""
    """The section `sharing` as JSON, for comparison."""


def digest_of(path: Path, sharing: Path | None = None) -> str:
    """The digest of the bytes of the files, empty if one of them cannot be read."""
    try:
        digest = hashlib.sha256(path.read_bytes())
        digest.update(b"" if sharing is None else sharing.read_bytes())
        return digest.hexdigest()
    except OSError:
        return ""


def read(path: Path, sharing: Path | None = None) -> ExtenderConfiguration:
    """Read a services-configuration.yaml or hivedscheduler.yaml, and the section `sharing`.

    The section is in a file of its own, else in services-configuration.yaml. Raises `FindingsError` if the
    configuration has errors, `PaictlError` if it cannot be read or holds no hivedscheduler section.
    """
    digest = digest_of(path, sharing)
    loaded = load([str(path)], None)
    report = validate(loaded, Choice((), (), Severity.ERROR))
    for failure in report.failures:
        raise failure
    if report.exit_code != ExitCode.OK:
        raise FindingsError(path, plain(FORMATS["text"](report)).rstrip())
    documents = [document for document in loaded.documents if document.kind is FileKind.HIVED]
    if not documents or not isinstance(documents[0].data, dict):
        raise PaictlError(
            "it has no hivedscheduler configuration",
            where=str(path),
            hint="give a hivedscheduler.yaml, or a services-configuration.yaml with a hivedscheduler section",
        )
    section = _section_in(sharing) if sharing is not None else _section_of(loaded.documents)
    where = f"{sharing or path}: {SECTION}"
    return ExtenderConfiguration(
        ClusterSpec.from_mapping(documents[0].data),
        digest,
        documents[0].source.text,
        read_sharing(section, where),
        json.dumps(section, sort_keys=True, default=str),
    )


def check_devices(spec: ClusterSpec, mode: str, where: Path) -> None:
    """Raise `PaictlError` if leaf cells are MIG instances and `mode` is not the environment, or is invalid."""
    divided = next((name for name in spec.sku_types if spec.mig_instances(name)), "")
    if divided and read_options(mode)[0] is not DeviceMode.ENVIRONMENT:
        raise PaictlError(
            text("leaf cells {name} are MIG instances, and claims only know whole GPUs", name=divided),
            where=str(where),
            hint="use --devices environment",
        )


def _section_of(documents: Iterable[Document]) -> object:
    """The section in a services-configuration.yaml; None without one."""
    contents = (document.data for document in documents if document.kind is FileKind.SERVICES)
    return next((data.get(SECTION) for data in contents if isinstance(data, dict)), None)


def _section_in(path: Path) -> object:
    """The section in a file that has it alone or under its name. Raises `PaictlError` if it cannot be read."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PaictlError(f"cannot be read: {' '.join(str(error).split())}", where=str(path)) from None
    return data.get(SECTION, data) if isinstance(data, dict) else data
