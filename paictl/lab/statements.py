"""The vocabulary of checks: one function for each kind of statement that a manifest can make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from paictl.cluster.interface import Event, JobView
from paictl.lab.findings import NOTHING, Finding, exact, number, quoted, span, text
from paictl.lab.journal import Typed, means
from paictl.lab.scene import Scene

Says = Mapping[str, Any]

_HOLDS: Final = {True: "holds it", False: "does not hold it"}
_NOT_BOTH: Final = "not both have run yet"


def job(scene: Scene, says: Says) -> Iterator[Finding]:
    """How a job is."""
    subject, found = f"job {says['name']}", scene.job(says["name"])
    if "absent" in says:
        yield _there(subject, says["absent"], "no such job", found)
        return
    if found is None:
        yield Finding(False, subject, "", "exists", "no such job")
        return
    numbers = {
        "devices": ("devices", found.devices),
        "preemptions": ("preemptions", found.preemptions),
        "attempt": ("attempt", found.attempt + 1),
        "running": ("tasks running", sum(task.state == "Running" for task in found.tasks)),
    }
    words = {"state": ("state", found.state.value), "vc": ("virtual cluster", found.vc),
             "priority": ("priority", found.priority)}  # fmt: skip
    for key, wanted in says.items():
        if key in words:
            yield exact(subject, words[key][0], wanted, words[key][1])
        elif key in numbers:
            yield number(subject, numbers[key][0], wanted, numbers[key][1])
        elif key == "reason":
            yield text(subject, "remark", wanted, found.reason)
        elif key in ("waited", "ran"):
            yield span(subject, key, wanted, _span_of(scene, found, key))


def _there(subject: str, absent: bool, missing: str, found: object) -> Finding:
    """Whether something is there, or is not, as it should be."""
    words = {True: missing, False: "exists"}
    return exact(subject, "", words[absent], words[found is None])


def _span_of(scene: Scene, found: JobView, key: str) -> int | None:
    if key == "waited":
        return (found.started if found.started is not None else scene.cluster.now) - found.submitted
    if found.started is None:
        return None
    return (found.ended if found.ended is not None else scene.cluster.now) - found.started


def placement(scene: Scene, says: Says) -> Iterator[Finding]:
    """Where the tasks of a job run or ran last."""
    subject = f"job {says['job']}"
    nodes, devices = _places(scene, says["job"])
    if "nodes" in says:
        wanted = [says["nodes"]] if isinstance(says["nodes"], str) else says["nodes"]
        yield exact(subject, "runs on", ", ".join(sorted(wanted)), ", ".join(nodes))
    if "devices" in says:
        yield exact(subject, "device numbers", ", ".join(map(str, says["devices"])), ", ".join(map(str, devices)))
    if "within" in says:
        size = int(says["within"])
        blocks = {device // size for device in devices}
        seen = f"{', '.join(map(str, devices))} on {', '.join(nodes)}" if devices else NOTHING
        yield Finding(
            len(nodes) == 1 and len(blocks) == 1, subject, "device numbers", f"within one block of {size}", seen
        )
    if "same-node-as" in says:
        others, _ = _places(scene, says["same-node-as"])
        wanted_nodes = ", ".join(others) or NOTHING
        yield Finding(bool(nodes) and nodes == others, subject, "runs on", wanted_nodes, ", ".join(nodes) or NOTHING)
    if "apart-from" in says:
        others, _ = _places(scene, says["apart-from"])
        shared = ", ".join(sorted({*nodes} & {*others})) or NOTHING
        seen = shared if nodes and others else _NOT_BOTH
        yield Finding(seen == NOTHING, subject, "shares nodes with", NOTHING, seen)
    if "node-count" in says:
        yield number(subject, "nodes", says["node-count"], len(nodes))


def _places(scene: Scene, name: str) -> tuple[list[str], list[int]]:
    """Nodes and devices of a job's tasks, sorted."""
    found = scene.job(name)
    tasks = [task for task in found.tasks if task.node] if found else []
    return sorted({task.node for task in tasks}), sorted(device for task in tasks for device in task.devices)


# --- what happened


def events(scene: Scene, says: list[Says]) -> Iterator[Finding]:
    """Events in an order."""
    missing = 0
    for event in scene.events:
        if missing < len(says) and _is(scene, event, says[missing]):
            missing += 1
    wanted = ", then ".join(_event_text(one) for one in says)
    seen = ", then ".join(_event_text(one) for one in says[:missing])
    if missing == len(says):
        yield Finding(True, "events", "happened", wanted, seen)
    else:
        yield Finding(False, "events", "happened", wanted, f"only {seen}" if seen else NOTHING)


def never(scene: Scene, says: Says) -> Iterator[Finding]:
    """An event that must not have happened."""
    found = sum(_is(scene, event, says) for event in scene.events)
    yield Finding(not found, _event_text(says), "times", "0", str(found))


def count(scene: Scene, says: Says) -> Iterator[Finding]:
    """How often an event has happened."""
    found = sum(_is(scene, event, says["event"]) for event in scene.events)
    yield number(_event_text(says["event"]), "times", says["times"], found)


def _is(scene: Scene, event: Event, says: Says) -> bool:
    """Whether an event is as a manifest describes it."""
    for kind in ("job", "node", "service"):
        if kind in says and event.subject != scene.subject(kind, says[kind]):
            return False
    task = f"{event.data.get('role')}[{event.data.get('index')}]"
    return (
        event.kind == says["what"]
        and ("on" not in says or event.data.get("node") == says["on"])
        and ("task" not in says or task == says["task"])
        and ("detail" not in says or re.search(says["detail"], event.message) is not None)
    )


def _event_text(says: Says) -> str:
    names = [f"{kind} {says[kind]}" for kind in ("job", "node", "service") if kind in says]
    task = f" {says['task']}" if "task" in says else ""
    place = f" on {says['on']}" if "on" in says else ""
    detail = f" {quoted(says['detail'])}" if "detail" in says else ""
    return f"{says['what']} {' '.join(names)}{task}{place}{detail}".strip()


def together(scene: Scene, says: Says) -> Iterator[Finding]:
    """Whether two jobs ever ran at the same time."""
    first, second = (scene.running_times(name) for name in says["jobs"])
    met = any(_overlap(a, b) for a in first for b in second)
    ok = met is says["ever"] and bool(first and second)
    words = {True: "yes", False: "no"}
    seen = words[met] if first and second else _NOT_BOTH
    yield Finding(ok, f"jobs {says['jobs'][0]} and {says['jobs'][1]}", "ever at the same time",
                  words[says["ever"]], seen)  # fmt: skip


def _overlap(a: tuple[int, int | None], b: tuple[int, int | None]) -> bool:
    return (b[1] is None or a[0] < b[1]) and (a[1] is None or b[0] < a[1])


def explain(scene: Scene, says: Says) -> Iterator[Finding]:
    """What the scheduler says about a job that waits."""
    subject, found = f"job {says['job']}", scene.job(says["job"])
    if found is None or found.state.value != "Waiting":
        yield Finding(False, subject, "state", "Waiting", found.state.value if found else "no such job")
        return
    answer = scene.cluster.explain(found.key)
    if "decision" in says:
        yield exact(subject, "decision", says["decision"], answer.data.get("decision", NOTHING))
    if "text" in says:
        yield text(subject, "says", says["text"], "\n".join(answer.lines))
    if "change" in says:
        kinds = [str(change["kind"]) for change in answer.data.get("changes", ())]
        yield Finding(
            says["change"] in kinds, subject, "possible change", says["change"], ", ".join(kinds) or NOTHING
        )  # fmt: skip


# --- how things are


def service(scene: Scene, says: Says) -> Iterator[Finding]:
    """How a service is."""
    subject = f"service {says['name']}"
    found = next((view for view in scene.services if view.name == says["name"]), None)
    if found is None:
        yield Finding(False, subject, "", "exists", NOTHING)
        return
    words = {True: "yes", False: "no"}
    for key, seen in (("running", found.running), ("ready", found.ready)):
        if key in says:
            yield exact(subject, key, words[says[key]], words[seen])
    if "loaded" in says:
        newest = scene.configuration.number if scene.configuration else 0
        wanted = newest if says["loaded"] == "newest" else says["loaded"]
        yield exact(subject, "configuration loaded", wanted, found.loaded)
    if "reason" in says:
        yield text(subject, "remark", says["reason"], found.reason)


def configuration(scene: Scene, says: Says) -> Iterator[Finding]:
    """The newest configuration."""
    newest = scene.configuration
    if "version" in says:
        yield number("configuration", "version", says["version"], newest.number if newest else 0)
    name = says.get("file", "services-configuration.yaml")
    written = newest.files.get(name, "") if newest else ""
    if "text" in says:
        there = re.search(says["text"], written) is not None
        yield Finding(there, "configuration", "", f"holds {quoted(says['text'])}", _HOLDS[there])
    if "no-text" in says:
        there = re.search(says["no-text"], written) is not None
        yield Finding(not there, "configuration", "", f"does not hold {quoted(says['no-text'])}", _HOLDS[there])


def promise(scene: Scene, says: Says) -> Iterator[Finding]:
    """What the newest configuration promises to a VC."""
    subject, found = f"virtual cluster {says['vc']}", scene.promised(says["vc"])
    missing = "no such virtual cluster"
    if "absent" in says:
        yield _there(subject, says["absent"], missing, found)
    elif found is None:
        yield Finding(False, subject, "", "exists", missing)
    elif "devices" in says:
        yield number(subject, "promised devices", says["devices"], found)


def node(scene: Scene, says: Says) -> Iterator[Finding]:
    """How a node is."""
    subject = f"node {says['name']}"
    found = next((view for view in scene.nodes if view.machine.name == says["name"]), None)
    if "absent" in says:
        yield _there(subject, says["absent"], "no such node", found)
    elif found is None:
        yield Finding(False, subject, "", "exists", "no such node")
    else:
        if "condition" in says:
            yield exact(subject, "condition", says["condition"], found.condition.value)
        if "used" in says:
            yield number(subject, "devices used", says["used"], found.used)


def cluster(scene: Scene, says: Says) -> Iterator[Finding]:
    """The cluster as a whole."""
    nodes = scene.nodes
    seen = {
        "nodes": len(nodes),
        "devices": sum(view.machine.devices for view in nodes),
        "used": sum(view.used for view in nodes),
        "jobs": len(scene.jobs),
    }
    for key, wanted in says.items():
        if key == "time":
            yield span("cluster", "time", wanted, scene.cluster.now)
        else:
            yield number("cluster", {"used": "devices used"}.get(key, key), wanted, seen[key])


# --- what was typed


def typed(scene: Scene, says: Says) -> Iterator[Finding]:
    """A command that did its work."""
    subject, found = f"command {says['command']}", matching(scene.typed, says["command"])
    if not found:
        yield Finding(False, subject, "", "was typed", "not typed yet")
        return
    codes = [one.exit for one in found]
    wanted = says.get("exit", 0)
    best = next((code for code in codes if number("", "", wanted, code).ok), codes[-1])
    yield number(subject, "exit code", wanted, best)


def refused(scene: Scene, says: Says) -> Iterator[Finding]:
    """A command that was refused, and why."""
    subject = f"command {says['command']}"
    messages = [f"{one.message}; {one.hint}" for one in matching(scene.typed, says["command"]) if one.message]
    seen = next((message for message in messages if re.search(says["reason"], message)), "")
    if seen or messages:
        yield text(subject, "was refused", says["reason"], seen or messages[-1])
    else:
        yield Finding(False, subject, "was refused", quoted(says["reason"]), "not refused yet")


def matching(typed: Iterable[Typed], pattern: str) -> list[Typed]:
    """The commands that a pattern of a manifest means."""
    return [one for one in typed if means(pattern, one.command)]
