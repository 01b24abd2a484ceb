"""Services as files for Helm and kustomize: a folder of configuration is read, checked, sealed and written as another.

A note beside the files keeps seals, number and time of the configuration, so that exporting the same again changes no
byte, and says which files are ours to replace.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from paictl import __version__
from paictl.cluster.doors import scheduler_host, server_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE, SCHEDULER
from paictl.cluster.manifests.certificates import CertificateSet, kept_in
from paictl.cluster.manifests.writing import Exported, to_yaml
from paictl.config.pushing.configfile import of_texts, texts_of
from paictl.config.pushing.push import values_behind
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.pushing import folder as folders
from paictl.operate.pushing.checking import check_whole
from paictl.service.catalogue import Catalogue, load_catalogue
from paictl.service.order import needed_by
from paictl.units import rfc3339

NOTE: Final = ".paictl-export.json"
SCRIPT: Final = "nodes.sh"


class ExportFormat(StrEnum):
    """What the files are for."""

    HELM = "helm"
    KUSTOMIZE = "kustomize"


@frozen
class ExportRequest:
    """What to export: a folder of configuration, a cluster's id, and services (all but some)."""

    path: str
    cluster_id: str
    names: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@frozen
class Written:
    """What an export has written; `removed` are files of the export before that there are no more."""

    folder: Path
    files: tuple[str, ...]
    services: tuple[str, ...]
    removed: tuple[str, ...]
    changed: bool


def export(request: ExportRequest, kind: ExportFormat, target: Path, at: datetime) -> Written:
    """Write a chart or a base into a folder; `at` is the instant from which a changed configuration counts.

    Raises `RefusedFilesError` for files with errors, `ServiceError` for an unknown service, `TemplateError` for one
    that cannot be rendered, `PaictlError` for a folder with files that no export has written. Nothing is written then.
    """
    from paictl.cluster import exports  # late: it needs the extra k8s, and help must work without it

    folder = _checked(request.path)
    note = _note_in(target)
    before = note.get("files") or {}
    files_before = of_texts(before)
    sealed = {name: file.sealed(*filter(None, [files_before.get(name), file])) for name, file in folder.files.items()}
    files = texts_of(sealed)
    same = before == files and note.get("format") == kind.value
    number = int(note.get("number", 0)) + (not same)
    since = datetime.fromisoformat(note["at"]) if same else at
    services = _services(load_catalogue(), request)
    exported = Exported(
        request.cluster_id, files, services, __version__, NAMESPACE, JOBS_NAMESPACE, number=number, at=since
    )
    write = exports.chart_of if kind is ExportFormat.HELM else exports.base_of
    texts = write(exported)
    new_note: dict[str, Any] = {
        "format": kind.value,
        "number": number,
        "at": rfc3339(since),
        "files": files,
        "written": sorted([*texts, NOTE]),
    }
    texts[NOTE] = json.dumps(new_note, indent=1, ensure_ascii=False) + "\n"
    return _write(target, texts, note.get("written") or [], services)


def export_secrets(request: ExportRequest, state: Path, now: float) -> str:
    """The Secrets that exported services need and the namespace they are in, as YAML; `now` is in seconds since 1970.

    Certificates of the scheduler are kept in the folder `state`. Raises as `export` does, and `PaictlError` where a
    file has a seal in the place of a secret.
    """
    from paictl.cluster import exports  # late: it needs the extra k8s, and help must work without it

    folder = _checked(request.path)
    sealed = {name: file.sealed(file) for name, file in folder.files.items()}
    services = _services(load_catalogue(), request)
    exported = Exported(request.cluster_id, texts_of(sealed), services, __version__, NAMESPACE, JOBS_NAMESPACE)
    return to_yaml(
        exports.secrets_of(exported, values_behind(folder.files, sealed), _certificates(exported, state, now))
    )


def _certificates(exported: Exported, state: Path, now: float) -> CertificateSet | None:
    """Those of kube-scheduler and the extender: the same that `extender config` and `placer config` print."""
    settings = exported.renderer().settings(SCHEDULER)
    if SCHEDULER not in exported.services or not settings["tls"]:
        return None
    door = server_of(settings["door"]).removeprefix(f"{SCHEDULER}-")
    return kept_in(state / door / f"{NAMESPACE}.json", scheduler_host(NAMESPACE, settings["door"]), now)


def _checked(path: str) -> folders.Folder:
    folder = folders.read(path)
    check_whole(folder.files, "the files have errors, so nothing was exported")
    return folder


def _services(catalogue: Catalogue, request: ExportRequest) -> tuple[str, ...]:
    """The services of a request with what they need, in the order in which they start."""
    names = catalogue.known(request.names) or frozenset(catalogue.services)
    names -= catalogue.known(request.skipped)
    names |= needed_by(catalogue.graph, names)
    return tuple(name for name in catalogue.services if name in names)


def _note_in(target: Path) -> Mapping[str, Any]:
    """What the export before has noted in a folder; empty where there was none."""
    try:
        if not (target / NOTE).exists():
            if target.exists() and any(target.iterdir()):
                raise PaictlError(
                    "contains files that `paictl service export` did not write",
                    where=str(target),
                    hint="name a new folder, or an empty one",
                )
            return {}
        note = json.loads((target / NOTE).read_text(encoding="utf-8"))
        datetime.fromisoformat(note["at"]), int(note["number"]), dict(note["files"]), list(note["written"])
    except OSError as error:
        raise PaictlError(text("cannot be read: {reason}", reason=error.strerror), where=str(target)) from None
    except (ValueError, KeyError, TypeError):
        raise PaictlError(
            "is not a file that paictl has written", where=str(target / NOTE), hint="export into a new folder"
        ) from None
    return dict(note)


def _write(target: Path, texts: Mapping[str, str], before: Collection[str], services: tuple[str, ...]) -> Written:
    changed = any(
        not (target / name).is_file() or (target / name).read_text() != content for name, content in texts.items()
    )
    removed = tuple(sorted(name for name in before if name not in texts and (target / name).is_file()))
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PaictlError(text("cannot be written: {reason}", reason=error.strerror), where=str(target)) from None
    write_together(target, texts, force=True)
    for name in removed:
        (target / name).unlink()
    return Written(target, tuple(sorted(texts)), services, removed, changed or bool(removed))
