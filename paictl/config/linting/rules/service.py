"""Rules about service descriptions: what the deployment would stumble over.

Passes::

    # pylon.service.yaml
    cluster-type: [k8s]
    prerequisite: [cluster-configuration]
    template-list: [pylon.yaml, start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    deploy-rules:
    - in: pai-master
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Document, Edit, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.service import LABELS, service_of
from paictl.i18n import text


@rule("GRF801", "no-refresh-script", WARNING)
def no_refresh_script(document: Document) -> Findings:
    """A service cannot be refreshed, because it names no refresh script.

    Why: refreshing reads the key without asking whether it is there; a KeyError ends the refresh of this service and of
    all that come after it. A description without any script is one of paictl's own, which needs none.

    Fails with::

        # pylon.service.yaml
        -refresh-script: refresh.sh
    """
    # The other scripts of a description without refresh-script.
    at = document.top.key("delete-script") or document.top.key("start-script")
    if at is not None and "refresh-script" not in document.top:
        yield Finding(at, "it has no refresh-script", "add refresh-script: the script that applies changes")


@rule("GRF802", "self-prerequisite", ERROR)
def self_prerequisite(document: Document) -> Findings:
    """A service lists itself as a prerequisite.

    Why: prerequisites are started first, without end: the deployment ends with a RecursionError.

    Fails with::

        # pylon.service.yaml
        -prerequisite: [cluster-configuration]
        +prerequisite: [cluster-configuration, pylon]
    """
    # Every prerequisite that is the service itself.
    service = service_of(document)
    for name in service.prerequisites:
        if name.text == service.name:
            yield Finding(name, text("service {name!r} is its own prerequisite", name=name.text), "remove it")


@rule("GRF803", "template-suffix", ERROR)
def template_suffix(document: Document) -> Findings:
    """An entry of the template list has the suffix `.template`.

    Why: the suffix is added by the deployment, which would look for `….template.template`.

    Fails with::

        # pylon.service.yaml
        -template-list: [pylon.yaml, start.sh]
        +template-list: [pylon.yaml.template, start.sh]
    """
    for item in service_of(document).templates:
        if item.text.endswith(".template"):
            bare = item.text.removesuffix(".template")
            edits = (Edit(item, bare),) if item.plain else ()
            yield Finding(
                item,
                text("{item!r} has the suffix .template, which is added anyway", item=item.text),
                text("write {bare}", bare=bare),
                edits,
            )


@rule("GRF804", "path-outside", ERROR)
def path_outside(document: Document) -> Findings:
    """A script or template lies outside the service's own folder.

    Why: paths are appended to `src/<service>/deploy/`: an absolute one is looked up there, and one with `..` belongs
    to another service, whose templates are removed when that service is done.

    Fails with::

        # pylon.service.yaml
        -stop-script: stop.sh
        +stop-script: ../pylon2/stop.sh
    """
    # Every path that is absolute or leaves the folder.
    service = service_of(document)
    for path in (*service.scripts.values(), *service.templates):
        if path.text.startswith("/") or ".." in path.text.split("/"):
            yield Finding(
                path,
                text("{path!r} is not below the service's folder", path=path.text),
                "write a path within the folder",
            )


@rule("GRF805", "contradictory-rules", ERROR)
def contradictory_rules(document: Document) -> Findings:
    """The deploy rules ask for a label and forbid it.

    Why: no machine satisfies both, so the service runs nowhere.

    Fails with::

        # pylon.service.yaml
         - in: pai-master
        +- notin: pai-master
    """
    # Every notin with the label of an in.
    rules = list(document.top.sequence("deploy-rules").mappings())
    wanted = {label.text for item in rules if (label := item.text("in"))}
    for item in rules:
        label = item.text("notin")
        if label is not None and label.text in wanted:
            yield Finding(
                label,
                text("label {label!r} is both required and forbidden", label=label.text),
                "remove one of the two rules",
            )


@rule("GRF807", "same-script", WARNING)
def same_script(document: Document) -> Findings:
    """Starting a service and stopping or deleting it run the same script.

    Why: most likely a copy-and-paste mistake: stopping the service starts it.

    Fails with::

        # pylon.service.yaml
        -stop-script: stop.sh
        +stop-script: start.sh
    """
    # A stop or delete script that is the start script.
    scripts = service_of(document).scripts
    start = scripts.get("start-script")
    for key in ("stop-script", "delete-script"):
        script = scripts.get(key)
        if start is not None and script is not None and script.text == start.text:
            yield Finding(
                script,
                text("{key} runs {script!r}, as start-script does", key=key, script=script.text),
                "name the script that stops it",
            )


@rule("GRF806", "not-for-kubernetes", WARNING)
def not_for_kubernetes(document: Document) -> Findings:
    """A service is not for clusters on Kubernetes.

    Why: since v1.0 there are no other kinds: the service is silently skipped.

    Fails with::

        # pylon.service.yaml
        -cluster-type: [k8s]
        +cluster-type: [yarn]
    """
    # A cluster-type without k8s.
    kinds = document.top.sequence("cluster-type")
    words = [kind.text for kind in kinds.scalars()]
    if words and "k8s" not in words and all(word in ("yarn", "k8s") for word in words):
        yield Finding(kinds.items[0], "the service is for YARN only and never deployed", "write k8s")


@rule("GRF808", "misspelt-label", WARNING)
def misspelt_label(document: Document) -> Findings:
    """A deploy rule has a label that is almost one of OpenPAI's own.

    Why: labels are free text, so nothing reports a misspelt one: no machine has it, and the service runs nowhere.

    Fails with::

        # pylon.service.yaml
        -- in: pai-master
        +- in: pai-maser
    """
    # Every label that resembles one of OpenPAI's and is none.
    for item in document.top.sequence("deploy-rules").mappings():
        for key in ("in", "notin"):
            label = item.text(key)
            if label is None or label.text in LABELS:
                continue
            hint, edits = suggested(label, LABELS, "")
            if hint:
                yield Finding(
                    label, text("label {label!r} is almost one of OpenPAI's own", label=label.text), hint, edits
                )
