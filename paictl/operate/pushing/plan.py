"""From a folder (or an old version) to what the cluster would have then, and what that means; nothing is sent here.

The version token: a plan is made on one version of the configuration, its `base`, and can be sent only while that is
the newest. Files that were made from an older version than the newest are not merged at all: what somebody else added
meanwhile is absent from them, and would look like a wish to drop it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from paictl.cluster.interface import (
    Configuration,
    ConfigVersion,
    ConflictError,
    Identity,
    Jobs,
    Metered,
    Nodes,
    Port,
    Reserving,
    Scheduling,
    Services,
    Stored,
    Templated,
)
from paictl.cluster.scheduling import Impact
from paictl.config.pushing.compare import FileDifference, compare_files
from paictl.config.pushing.configfile import Files, loaded, of_texts, texts_of
from paictl.config.pushing.push import PushResult, of_services, prepare_push, values_behind
from paictl.config.quotas.capacity import Capacity, capacity, configuration
from paictl.config.quotas.diff import VcChange
from paictl.config.quotas.diff import compare as compare_quotas
from paictl.config.reading.nodes import Data, dotted
from paictl.config.reading.problem import Problem
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import Text, counted, listed, text
from paictl.operate.budgets import below_use
from paictl.operate.pushing import Mode
from paictl.operate.pushing import folder as folders
from paictl.operate.pushing.checking import check_alone, check_merged, refuse_twice
from paictl.operate.pushing.folder import read
from paictl.operate.pushing.grants import Turnover, end_grants, grant_notes
from paictl.service.catalogue import load_catalogue
from paictl.service.readiness import readers_of
from paictl.units import rfc3339


def vc_changes(before: Files, after: Files) -> tuple[VcChange, ...]:
    """What each virtual cluster gains and loses; nothing where one side has no configuration that can be counted."""
    old, new = _capacity(before), _capacity(after)
    if new is None:
        return ()
    return compare_quotas(old or Capacity((), ()), new).vcs


def _capacity(files: Files) -> Capacity | None:
    try:
        return capacity(configuration(loaded(files)))
    except PaictlError:
        return None


@frozen
class Readers:
    """The services that read what changed: those that run go on with what they have until they are refreshed."""

    to_refresh: tuple[str, ...] = ()
    to_start: tuple[str, ...] = ()


class EffectsPorts(Identity, Services, Protocol):
    """What is needed of a cluster to know who reads its configuration."""


def readers(cluster: EffectsPorts, differences: Iterable[FileDifference]) -> Readers:
    """Who has to load a change; empty where a cluster has no services of ours yet."""
    if Port.SERVICES in cluster.lacks:
        return Readers()
    running = {service.name: service.running for service in cluster.services()}
    names = [name for name in readers_of(differences, load_catalogue()) if name in running]
    return Readers(tuple(name for name in names if running[name]), tuple(name for name in names if not running[name]))


def turnover(before: Files, after: Files) -> Turnover:
    """Which virtual clusters go and come; none where one side has no configuration that can be counted."""
    old, new = _capacity(before), _capacity(after)
    if old is None or new is None:
        return Turnover()
    names_before, names_after = (frozenset(vc.name for vc in side.vcs) for side in (old, new))
    return Turnover(names_before - names_after, names_after - names_before)


class PushPorts(
    Identity, Nodes, Configuration, Services, Scheduling, Metered, Stored, Templated, Jobs, Reserving, Protocol
):
    """What is needed of a cluster to push to it."""


@frozen
class PushRequest:
    """What to push; `drop` names keys (or files) to drop, `base` says the version it was made from."""

    path: str
    mode: Mode = Mode.ALL
    drop: tuple[str, ...] = ()
    base: int | None = None


@frozen
class PushPlan:
    """What a push comes to: the `files` that the cluster would have, made on its version `base` (0: none)."""

    cluster: str
    base: int
    files: Mapping[str, str]
    differences: tuple[FileDifference, ...]
    kept: tuple[tuple[str, str], ...] = ()
    """(file, key) of what only the cluster has and keeps."""
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    vcs: tuple[VcChange, ...] = ()
    turnover: Turnover = field(default_factory=Turnover)
    """The virtual clusters whose grants end."""
    harmed: tuple[Impact, ...] = ()
    """Jobs that are worse off once the scheduler has loaded it."""
    readers: Readers = field(default_factory=Readers)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Seal → value, of the secrets that the files have in clear; in no report and in no file."""

    @property
    def changes(self) -> bool:
        """Whether the cluster's configuration would be another one."""
        return any(difference.what is not None for difference in self.differences)


@frozen
class Contested:
    """A key that differs between the version that files were made from, the cluster's newest, and the files.

    A value of None says that the key is not there; secrets are masked.
    """

    file: str
    key: str
    base: Data
    theirs: Data
    mine: Data


class StaleFilesError(ConflictError):
    """Files were made from an older version than the newest; `contested` says what others changed, and what they do."""

    def __init__(self, message: str, contested: tuple[Contested, ...], *, hint: str, where: str) -> None:
        super().__init__(message, hint=hint, where=where)
        self.contested = contested


def newest(cluster: Configuration) -> ConfigVersion | None:
    """The newest version, None if nothing was ever pushed."""
    versions = cluster.configurations()
    return versions[-1] if versions else None


def plan(cluster: PushPorts, request: PushRequest) -> PushPlan:
    """The plan of a push from a folder.

    Raises `RefusedFilesError` for files with errors, `StaleFilesError` for files that are older than what the cluster
    has, `PaictlError` for a key that cannot be dropped or a secret that cannot be sealed.
    """
    folder = folders.read(request.path)
    files = of_services(folder.files) if request.mode is Mode.SERVICE else folder.files
    alone = check_alone(files)
    versions = cluster.configurations()
    stored = of_texts(versions[-1].files, folder.places) if versions else {}
    _refuse_stale(cluster, request, files, versions)
    push = prepare_push(files, stored, request.drop)
    twice = refuse_twice(push.files, files)
    texts, names = texts_of(push.files), turnover(stored, push.files)
    warnings = (*check_merged(alone, push.files, stored, folder.files), *below_use(cluster, texts, folder.places))
    return PushPlan(
        cluster.name,
        versions[-1].number if versions else 0,
        texts,
        push.differences,
        _kept(push),
        warnings,
        (
            *folder.notes,
            *twice,
            *_unknown(cluster),
            *_absent(cluster, stored, push),
            *grant_notes(cluster, names),
        ),
        vc_changes(stored, push.files),
        names,
        _harmed(cluster, push.differences, texts),
        readers(cluster, push.differences),
        push.secrets,
    )


def _kept(push: PushResult) -> tuple[tuple[str, str], ...]:
    return tuple((name, dotted(path)) for name, merged in push.merged.items() for path in merged.kept)


def _refuse_stale(cluster: PushPorts, request: PushRequest, files: Files, versions: Iterable[ConfigVersion]) -> None:
    """Raise `StaleFilesError` if others changed something since the version that the files were made from."""
    every = {version.number: version for version in versions}
    number = base_version(cluster, request, every)
    if number is None or number not in every or number == max(every):
        return
    base, now = of_texts(every[number].files), of_texts(every[max(every)].files)
    theirs = compare_files(base, now)
    if all(difference.what is None for difference in theirs):
        return
    mine = prepare_push(files, base, request.drop).differences
    raise StaleFilesError(
        text(
            "is based on version {number}, but the newest is {value}: others changed {value2}",
            number=number,
            value=max(every),
            value2=_count(theirs),
        ),
        tuple(_contested(theirs, mine)),
        where=request.path,
        hint=text(
            "pull it with paictl config pull -o DIR and reapply your change, or overwrite it with --base {value}",
            value=max(every),
        ),
    )


def base_version(cluster: Identity, request: PushRequest, versions: Mapping[int, ConfigVersion]) -> int | None:
    """The version that files were made from, as the request or the folder says; None where neither says one."""
    if request.base is not None:
        return request.base
    noted = folders.base_of(request.path, cluster.name)
    known = noted is not None and noted.version in versions and noted.at == rfc3339(versions[noted.version].at)
    return noted.version if noted is not None and known else None


def _count(differences: Iterable[FileDifference]) -> str:
    number = sum(len(difference.changes) or difference.what is not None for difference in differences)
    return "1 key" if number == 1 else f"{number} keys"


def _contested(theirs: Iterable[FileDifference], mine: Iterable[FileDifference]) -> Iterator[Contested]:
    """The keys that one of two sides changed since the same version, in order of the files."""
    their, my = _by_key(theirs), _by_key(mine)
    for file, key in dict.fromkeys((*their, *my)):
        their_change, my_change = their.get((file, key)), my.get((file, key))
        if their_change is not None and my_change is not None:
            yield Contested(file, key, their_change[0], their_change[1], my_change[1])
        elif their_change is not None:
            yield Contested(file, key, their_change[0], their_change[1], their_change[0])
        elif my_change is not None:
            yield Contested(file, key, my_change[0], my_change[0], my_change[1])


def _by_key(differences: Iterable[FileDifference]) -> dict[tuple[str, str], tuple[Data, Data]]:
    return {(file.name, change.path): (change.old, change.new) for file in differences for change in file.changes}


def plan_of(cluster: PushPorts, base: ConfigVersion | None, files: Mapping[str, str]) -> PushPlan:
    """The plan to store files as they are, on a version."""
    before, after = of_texts(base.files if base else {}), of_texts(files)
    differences, names = compare_files(before, after), turnover(before, after)
    return PushPlan(
        cluster.name,
        base.number if base else 0,
        files,
        differences,
        vcs=vc_changes(before, after),
        notes=grant_notes(cluster, names),
        turnover=names,
        harmed=_harmed(cluster, differences, files),
        readers=readers(cluster, differences),
    )


def _unknown(cluster: Identity) -> Iterator[str]:
    """What is unknown on this kind of cluster."""
    if Port.SCHEDULING in cluster.lacks:
        yield "which jobs a push affects cannot be determined on this cluster yet"


def _absent(cluster: PushPorts, before: Files, push: PushResult) -> Iterator[Text]:
    """Which nodes a push names for the first time although the cluster does not have them."""
    old, new = _capacity(before), _capacity(push.files)
    known = {node for chain in (old.chains if old else ()) for node in chain.nodes}
    named = [node for chain in (new.chains if new else ()) for node in chain.nodes if node not in known]
    if not named or Port.NODES in cluster.lacks:
        return
    there = {node.machine.name for node in cluster.nodes()}
    absent = [node for node in named if node not in there]
    if absent:
        yield counted(
            "node {nodes} is in the configuration but not in the cluster; until it joins, its cells count as bad "
            "hardware (paictl node add NODE)",
            "nodes {nodes} are in the configuration but not in the cluster; until they join, their cells count as bad "
            "hardware (paictl node add NODE)",
            len(absent),
            nodes=listed(absent),
        )


def _harmed(cluster: PushPorts, differences: Iterable[FileDifference], files: Mapping[str, str]) -> tuple[Impact, ...]:
    if Port.SCHEDULING in cluster.lacks or not any(difference.changes for difference in differences):
        return ()
    return tuple(cluster.impact(files))


def compare(cluster: PushPorts, path: str) -> PushPlan:
    """What a push of a folder would change; raises `RefusedFilesError` for files that cannot be read."""
    folder, now = folders.read(path), newest(cluster)
    check_alone(folder.files, "the files have errors, so they cannot be compared")
    push = prepare_push(folder.files, of_texts(now.files) if now else {})
    return PushPlan(cluster.name, now.number if now else 0, texts_of(push.files), push.differences, _kept(push))


def plan_rollback(cluster: PushPorts, number: int) -> PushPlan:
    """The plan to store an older version again; raises `ClusterError` if there is none of that number."""
    return plan_of(cluster, newest(cluster), cluster.configuration(number).files)


def send(
    cluster: PushPorts, made: PushPlan, message: str, request: PushRequest | None = None, *, keep_grants: bool = False
) -> ConfigVersion:
    """Store what a plan says as a new version.

    Storages and template libraries are taken from the virtual clusters that it removes, once it is stored, and from
    those of earlier times whose names it gives to new ones, before; with `keep_grants` from none: for a configuration
    that is there for a time only.

    Raises `ConflictError` if the cluster has moved since it was made; where the `request` is given that it was made of,
    the error is the `StaleFilesError` with what others changed, if they changed anything.
    """
    ends = Turnover() if keep_grants else made.turnover
    end_grants(cluster, ends.added)
    try:
        version = cluster.push(made.files, message, base=made.base, secrets=made.secrets)
    except ConflictError:
        if request is not None:
            plan(cluster, replace(request, base=made.base))
        raise
    try:
        end_grants(cluster, ends.removed)
    except PaictlError as error:
        error.hint = text(
            "version {number} is stored; end the grants noted above yourself: paictl storage grant NAME --revoke VC",
            number=version.number,
        )
        raise
    return version


_FORM: Final = {"kind": "paictl-config-plan", "schemaVersion": 1}


def write_plan(path: Path, made: PushPlan, message: str) -> None:
    """Keep a plan in a file that only its owner can read; secrets in it are sealed. Raises `PaictlError`."""
    data = {**_FORM, "cluster": made.cluster, "base": made.base, "message": message, "files": dict(made.files)}
    write_together(
        path.parent, {path.name: json.dumps(data, indent=2, ensure_ascii=False) + "\n"}, force=True, mode=0o600
    )


def read_plan(path: Path, cluster: PushPorts, folder: str | None = None) -> tuple[PushPlan, str]:
    """A plan from a file, and its message, as it would do now.

    The file has no secrets in clear: where a cluster needs new ones, they are read in the `folder` that it was made of.
    Raises `ConflictError` if it is one of another cluster, or the cluster has moved since; `PaictlError` if the file
    contains no plan.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        base, message = int(data["base"]), str(data["message"])
        files = {str(name): str(text) for name, text in data["files"].items()}
        fits = {key: data[key] for key in _FORM} == _FORM
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise PaictlError("contains no plan", where=str(path), hint="make one: paictl config plan -p DIR -o FILE")
    if data["cluster"] != cluster.name:
        raise ConflictError(
            text("is a plan for cluster {value}, but this is {name}", value=data["cluster"], name=cluster.name),
            where=str(path),
        )
    now = newest(cluster)
    if base != (now.number if now else 0):
        raise ConflictError(
            text(
                "was made for version {base}, but the newest is {value}: the configuration has changed since",
                base=base,
                value=now.number if now else 0,
            ),
            where=str(path),
            hint="make a new one: paictl config plan -p DIR -o FILE",
        )
    made = plan_of(cluster, now, files)
    return (
        made if folder is None else replace(made, secrets=values_behind(read(folder).files, of_texts(files)))
    ), message
