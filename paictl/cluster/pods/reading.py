"""What a pod asks for and where it runs, from its object in the API: HiveD's annotations first, then labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson
import yaml

from paictl import i18n
from paictl.cluster.pods.labels import (
    GROUP_SIZE,
    KEYS,
    LEAF_CELLS,
    NO_DEVICES,
    VC,
    Reading,
    Rules,
    check_devices,
    pod_limit,
    read_labels,
)
from paictl.cluster.pods.podgroups import PodGroup
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import BIND_INFO, ENABLE, SCHEDULING_SPEC, parse_bind_info, parse_request

MAX_TEXT: Final = 256 << 10
"""Characters of an annotation; the API server takes 256 KiB for all of a pod's."""
MAX_OWN: Final = 128 << 10
"""Bytes of the annotations that a pod is created with. A binding adds the scheduler's, which for large gangs are as
long, and beyond `MAX_TEXT` together the API server refuses to change the pod, and so to evict it."""
MAX_POD: Final = 1 << 20
"""Bytes of a whole pod. etcd refuses objects of 1.5 MiB or more: then nobody can change or evict the pod any more."""
_IMAGE: Final = 4000
"""Bytes that the name of a container's image may have once the pod has its place: the policy allows 1000 characters."""
MAX_DEPTH: Final = 50
"""Levels of YAML in an annotation; HiveD's have six."""
MAX_PLAIN: Final = 1000
"""Characters of a value of YAML without quotes or with a tag, which may turn out to be a number."""
MAX_VALUES: Final = 40_000
"""Values of YAML, aliases counted as what they stand for; HiveD's largest ones have about 36,000 in `MAX_TEXT`."""
MAX_ODD_KEYS: Final = 100
"""YAML keys that are not strings; HiveD has none. Integers can be chosen to collide, and building a mapping of them
then takes quadratic time. Python randomizes the hashes of strings, so those cannot be chosen."""
DEFAULT_GRACE: Final = 30.0
"""Seconds that Kubernetes gives a pod for its end if its specification does not say."""
OVERFLOW: Final = (2**63 - 1) // 10**9
"""Seconds of the longest time that Kubernetes can count, 292 years."""
_TEXT: Final = "tag:yaml.org,2002:str"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_text(text: str) -> object:
    """JSON or YAML; whatever the text is, nothing but `ValueError` is raised.

    JSON, which is what we write ourselves, is read fifty times as fast. Anybody who may create a pod writes such texts,
    and what they cost is paid under the lock: YAML is checked before it is built (`_check`).
    """
    no_json = ""
    if text.lstrip()[:1] == "{":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:  # YAML in flow style looks alike
            no_json = f"as JSON: {error}; as YAML: "
    try:
        _check(text)
        return yaml.load(text, _LOADER)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ValueError(f"{no_json}{' '.join(str(error).split())[:300]}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # PyYAML's, for `!!int ""` and `!!timestamp x`
        raise ValueError(f"{no_json}a value does not match its tag") from None


def _check(text: str) -> None:
    """Raise `ValueError` for YAML whose building would take more than its length.

    libyaml's builder calls itself level by level, so deep nesting ends the process; merged aliases multiply; and a
    number in base 60 takes the square of its digits, as do keys that collide. Reading the events costs none of that.
    """
    loader = _LOADER(text)
    opened: list[tuple[str, int]] = []  # the anchor of each collection that is open, and the values before it
    keys: list[bool | None] = [None]  # of each collection that is open whether a key comes next; None: it has none
    sizes: dict[str, int] = {}  # how many values an anchor stands for
    values = odd_keys = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            is_key = keys[-1]
            if is_key is not None and isinstance(event, yaml.NodeEvent):
                keys[-1] = not is_key
            if isinstance(event, yaml.AliasEvent):
                if any(anchor == event.anchor for anchor, _ in opened):
                    raise ValueError("an alias refers to a value that contains it")
                values += sizes.get(event.anchor or "", 0)
            elif isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor or "", values))
                keys.append(True if isinstance(event, yaml.MappingStartEvent) else None)
                if len(opened) > MAX_DEPTH:
                    raise ValueError("it is nested too deeply")
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = opened.pop()
                keys.pop()
                sizes[anchor] = values - before + 1
            elif isinstance(event, yaml.ScalarEvent):
                typed = not event.style or event.tag not in (None, "!", _TEXT)
                if typed and len(event.value) > MAX_PLAIN:
                    raise ValueError(f"a value of more than {MAX_PLAIN} characters is not plain text in quotes")
                sizes[event.anchor or ""] = 1
                odd_keys += bool(is_key and typed and not _is_text(loader, event))
                if odd_keys > MAX_ODD_KEYS:
                    raise ValueError(f"more than {MAX_ODD_KEYS} keys are not text")
            values += 1
            if values > MAX_VALUES:
                raise ValueError("it has too many values")
    finally:
        loader.dispose()


def _is_text(loader: Any, event: Any) -> bool:
    """Whether a value of YAML without quotes is text: a word, and no number, date, truth value or null."""
    tag = event.tag or loader.resolve(yaml.ScalarNode, event.value, (True, False))
    return str(tag) == _TEXT


def noted_on(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod's annotations, which may be missing or nonsense."""
    notes = pod["metadata"].get("annotations")
    return notes if isinstance(notes, dict) else {}


def _is_overfull(noted: Mapping[str, Any]) -> bool:
    size = sum(len(key) + len(str(word)) for key, word in noted.items())  # characters: most are one byte
    return size > MAX_OWN or (4 * size > MAX_OWN and sum(len(str(word).encode()) for word in noted.values()) > MAX_OWN)


def is_too_large(pod: Mapping[str, Any]) -> bool:
    """Whether a pod that waits could not be evicted any more once it has its place, as its owner may fill it up."""
    spec = pod.get("spec") or {}
    number = len(spec.get("containers") or ()) + len(spec.get("initContainers") or ())
    return BIND_INFO not in noted_on(pod) and _size(pod) + number * _IMAGE > MAX_POD


def _size(pod: Mapping[str, Any]) -> int:
    """Bytes of a pod, as JSON; etcd has it in somewhat fewer."""
    try:
        return len(orjson.dumps(pod, default=str, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:  # it is not from an API server, but from a file
        return len(str(pod))


def asks(pod: Mapping[str, Any]) -> bool:
    """Whether a pod means this scheduler: by annotation, by label, by the marker resource, or by the place it has."""
    noted = noted_on(pod)
    labels = pod["metadata"].get("labels")
    return (
        SCHEDULING_SPEC in noted
        or BIND_INFO in noted
        or VC in noted
        or (isinstance(labels, dict) and VC in labels)
        or pod_limit(pod, ENABLE) > 0
    )


def ending(pod: Mapping[str, Any]) -> tuple[float, float]:
    """The seconds that a pod's specification gives it for its end, and by when it has to end (0: it is not deleted).

    Never, with a grace period so long that its end overflows: the API server then writes a time of the past, and
    kubelets never stop the containers.
    """
    grace, about = (pod.get("spec") or {}).get("terminationGracePeriodSeconds"), pod["metadata"]
    seconds = float(grace) if isinstance(grace, int) else DEFAULT_GRACE
    at, given = about.get("deletionTimestamp"), about.get("deletionGracePeriodSeconds")
    if at and isinstance(given, int) and given > OVERFLOW:
        return seconds, math.inf
    return seconds, datetime.fromisoformat(str(at)).timestamp() if at else 0.0


def is_launcher(pod: Mapping[str, Any], problem: RequestError) -> bool:
    """Whether a pod cannot be read only because it has no devices: it belongs to no gang and needs none."""
    return problem.field == NO_DEVICES and pod_limit(pod, ENABLE) == 0


def source_of(pod: Mapping[str, Any], named: PodGroup | None = None) -> tuple[object, ...]:
    """What the reading of a pod depends on and can change while it waits: read again if this has."""
    noted, labels = noted_on(pod), pod["metadata"].get("labels") or {}
    ordered = sorted(labels.items()) if isinstance(labels, dict) else labels
    return _is_overfull(noted), named and named.size, noted.get(SCHEDULING_SPEC), str(ordered), *map(noted.get, KEYS)


def read_pod(pod: Mapping[str, Any], uid: str, name: str, rules: Rules, named: PodGroup | None = None) -> Reading:
    """A pod's request; `name` is ``namespace/name``, `named` the PodGroup that it names, if that is known.

    Raises `RequestError` naming the annotation, label or field at fault. A pod that has its place is read in any case:
    whatever its limits are, its devices must not be given away.
    """
    reading = _read(pod, uid, name, rules, named)
    if BIND_INFO not in noted_on(pod):
        if _is_overfull(noted_on(pod)):
            raise RequestError(
                name,
                "metadata.annotations",
                i18n.text(
                    "its annotations have more than {most} bytes: it could not be evicted once it has its place",
                    most=MAX_OWN,
                ),
            )
        if is_too_large(pod):
            raise RequestError(
                name,
                "spec",
                i18n.text(
                    "the pod has or can get more than {most} bytes: it could not be evicted once it has its place",
                    most=MAX_POD,
                ),
            )
        check_devices(pod, reading.request, rules)
    return reading


def _read(pod: Mapping[str, Any], uid: str, name: str, rules: Rules, named: PodGroup | None) -> Reading:
    text = noted_on(pod).get(SCHEDULING_SPEC)
    if text is None:
        labels = pod["metadata"].get("labels")
        if VC in noted_on(pod) or (isinstance(labels, dict) and VC in labels):
            return read_labels(pod, uid, name, rules, named)
        raise RequestError(
            name,
            SCHEDULING_SPEC.rpartition("/")[2],
            i18n.text(
                "the pod has neither this annotation nor a label {vc} (with {size} and {cells} where needed)",
                vc=VC,
                size=GROUP_SIZE,
                cells=LEAF_CELLS,
            ),
        )
    if isinstance(text, str) and len(text) > MAX_TEXT:
        raise RequestError(name, SCHEDULING_SPEC.rpartition("/")[2], "the annotation is too long")
    request = parse_request(text, uid, name, parse_text)
    own = request.group == name
    return Reading(
        request,
        "annotation",
        "the pod is a group of its own" if own else "affinityGroup.name",
        "leafCellNumber",
    )


def read_info(pod: Mapping[str, Any], name: str) -> BindInfo | None:
    """Where a bound pod runs by its annotation, None if it has none. Raises `RequestError` if it is malformed."""
    text = noted_on(pod).get(BIND_INFO)
    return None if text is None else parse_bind_info(text, name, parse_text)


def bound_node(pod: Mapping[str, Any]) -> str:
    """The node that a pod is bound to; empty if it is not."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def pinned_node(pod: Mapping[str, Any]) -> str:
    """The node that a pod was pinned to by a placer; empty if it was not.

    The annotation alone is no proof: it counts once the gates are gone and all terms name one and the same node.
    """
    spec = pod.get("spec") or {}
    if BIND_INFO not in noted_on(pod) or spec.get("schedulingGates"):
        return ""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    named: set[str] = set()
    for term in (required or {}).get("nodeSelectorTerms") or ():
        fields = [field for field in term.get("matchFields") or () if field.get("key") == "metadata.name"]
        values = [
            field["values"] for field in fields if field.get("operator") == "In" and len(field.get("values") or ()) == 1
        ]
        if not values:
            return ""
        named.update(map(str, values[-1]))
    return named.pop() if len(named) == 1 else ""
