"""The vocabulary of checks: one function for each kind of statement that a manifest can make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from paictl.cluster.interface import Event, JobView
from paictl.i18n import in_language
from paictl.lab.commandlog import INTERRUPTED, OUTPUT_CUT, TypedCommand, means
from paictl.lab.findings import NOTHING, YES_OR_NO, Mismatch, bounds, exact, in_both, number, plain, quoted, span, text
from paictl.lab.messages import Message, by_language, joined, literal, message
from paictl.lab.observation import Observation
from paictl.lab.requests import matching as matching_requests
from paictl.units import parse_duration
from paictl.workload.usagereport import Dimension, UsageRow, add_up

Says = Mapping[str, Any]

_NOT_BOTH: Final = message("not-both")
_NO_NODE: Final = message("no-node")
_EXISTS: Final = message("exists")
_NO_JOB: Final = message("no-such-job")


def job(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """How a job is."""
    subject, view = message("job", name=says["name"]), observation.job(says["name"])
    if "absent" in says:
        yield _presence(subject, says["absent"], _NO_JOB, view)
        return
    if view is None:
        yield Mismatch(False, subject, "", _EXISTS, _NO_JOB)
        return
    numbers = {
        "devices": view.devices,
        "preemptions": view.preemptions,
        "attempt": view.attempt + 1,
        "running": sum(task.state == "Running" for task in view.tasks),
    }
    words = {
        "state": view.state.value,
        "vc": view.vc,
        "priority": view.priority,
        "user": view.key.partition("~")[0],
    }
    for key, expected in says.items():
        if key in words:
            yield exact(subject, {"vc": "virtual cluster"}.get(key, key), expected, words[key])
        elif key in numbers:
            yield number(subject, {"running": "tasks running"}.get(key, key), expected, numbers[key])
        elif key == "reason":
            yield text(subject, "remark", expected, view.reason)
        elif key in ("waited", "ran"):
            yield span(subject, key, expected, _span_of(observation, view, key), observation.tolerance)


def _presence(subject: Message, absent: bool, missing: Message, view: object) -> Mismatch:
    """Whether something is there, or is not, as it should be."""
    words = {True: missing, False: _EXISTS}
    return exact(subject, "", words[absent], words[view is None])


def _span_of(observation: Observation, view: JobView, key: str) -> int | None:
    started = None if view.started is None else observation.since_up(view.started)
    if key == "waited":
        return (observation.now if started is None else started) - observation.since_up(view.submitted)
    if started is None:
        return None
    return (observation.now if view.ended is None else observation.since_up(view.ended)) - started


def placement(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """Where the tasks of a job run or ran last."""
    subject = message("job", name=says["job"])
    nodes, devices = _places(observation, says["job"])
    where = _list(nodes) if nodes else message("not-placed")
    if "nodes" in says:
        expected = [says["nodes"]] if isinstance(says["nodes"], str) else says["nodes"]
        yield exact(subject, "runs on", _list(sorted(expected)), where)
    if "promised-to" in says:
        promised = observation.promised(says["promised-to"])
        own = promised.nodes if promised else ()
        yield Mismatch(bool(nodes) and {*nodes} <= {*own}, subject, "runs on", _list(own), where)
    if "devices" in says:
        yield exact(subject, "device numbers", _list(says["devices"]), _list(devices))
    if "within" in says:
        size = int(says["within"])
        blocks = {device // size for device in devices}
        place = message("on-nodes", devices=_list(devices), nodes=_list(nodes)) if devices else NOTHING
        ok = len(nodes) == 1 and len(blocks) == 1
        yield Mismatch(ok, subject, "device numbers", message("one-block", size=size), place)
    if "same-node-as" in says:
        others, _ = _places(observation, says["same-node-as"])
        yield Mismatch(bool(nodes) and nodes == others, subject, "runs on", _list(others), where)
    if "apart-from" in says:
        others, _ = _places(observation, says["apart-from"])
        common = literal(", ".join(sorted({*nodes} & {*others})))
        shared = (common if {*nodes} & {*others} else _NO_NODE) if nodes and others else _NOT_BOTH
        both = message("two-jobs", first=says["job"], second=says["apart-from"])
        yield Mismatch(shared == _NO_NODE, both, "shares nodes with", _NO_NODE, shared)
    if "node-count" in says:
        yield number(subject, "nodes", says["node-count"], len(nodes))


def _list(names: Iterable[object]) -> Message:
    words = ", ".join(map(str, names))
    return literal(words) if words else NOTHING


def _places(observation: Observation, name: str) -> tuple[list[str], list[int]]:
    """Nodes and devices of a job's tasks, sorted."""
    view = observation.job(name)
    tasks = [task for task in view.tasks if task.node] if view else []
    return sorted({task.node for task in tasks}), sorted(device for task in tasks for device in task.devices)


# --- what happened


def events(observation: Observation, says: list[Says]) -> Iterator[Mismatch]:
    """Events in an order, each no sooner after the one before it than it says."""
    matched, before = 0, None
    for event in observation.events:
        if matched < len(says) and _is(observation, event, says[matched]) and _is_late(event, before, says[matched]):
            matched, before = matched + 1, event
    expected = joined("join.then", map(_event_text, says))
    if matched == len(says):
        yield Mismatch(True, message("events"), "happened", expected, expected)
    else:
        so_far = message("only", what=joined("join.then", map(_event_text, says[:matched])))
        yield Mismatch(False, message("events"), "happened", expected, so_far if matched else message("no-event"))


def never(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """An event that must not have happened."""
    times = sum(_is(observation, event, says) for event in observation.events)
    yield Mismatch(not times, _event_text(says), "times", literal(0), literal(times))


def count(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """How often an event has happened."""
    times = sum(_is(observation, event, says["event"]) for event in observation.events)
    yield number(_event_text(says["event"]), "times", says["times"], times)


def _is(observation: Observation, event: Event, says: Says) -> bool:
    """Whether an event is as a manifest describes it."""
    for kind in ("job", "node", "service"):
        if kind in says and event.subject != observation.subject(kind, says[kind]):
            return False
    task = f"{event.data.get('role')}[{event.data.get('index')}]"
    return (
        event.kind == says["what"]
        and ("on" not in says or event.data.get("node") == says["on"])
        and ("task" not in says or task == says["task"])
        and ("detail" not in says or re.search(says["detail"], event.message) is not None)
    )


def _is_late(event: Event, before: Event | None, says: Says) -> bool:
    """Whether so much time lies between an event and the one before it as a manifest says, if it does."""
    if "later" not in says or before is None:
        return True
    return (event.at - before.at).total_seconds() >= parse_duration(says["later"])


def _event_text(says: Says) -> Message:
    parts = [message(f"event.{says['what']}")]
    parts += [message(kind, name=says[kind]) for kind in ("job", "node", "service") if kind in says]
    if "task" in says:
        parts.append(literal(says["task"]))
    if "on" in says:
        parts.append(message("on-node", name=says["on"]))
    if "detail" in says:
        parts.append(_detail(plain(says["detail"])))
    if "later" in says:
        parts.append(message("no-sooner", span=says["later"]))
    return joined("join.words", parts)


def _detail(words: str) -> Message:
    """What an event says: a name, or several words, which have a Chinese reading if they are all that it says."""
    chinese = in_language(words, "zh") if " " in words else words
    return quoted(words) if chinese == words else by_language({"en": quoted(words), "zh": quoted(chinese)})


def together(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """Whether two jobs ever ran at the same time."""
    first, second = (observation.running_times(name) for name in says["jobs"])
    met = any(_overlap(a, b) for a in first for b in second)
    ok = met is says["ever"] and bool(first and second)
    subject = message("two-jobs", first=says["jobs"][0], second=says["jobs"][1])
    outcome = YES_OR_NO[met] if first and second else _NOT_BOTH
    yield Mismatch(ok, subject, "ever at the same time", YES_OR_NO[says["ever"]], outcome)


def _overlap(a: tuple[int, int | None], b: tuple[int, int | None]) -> bool:
    return (b[1] is None or a[0] < b[1]) and (a[1] is None or b[0] < a[1])


def explain(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """What the scheduler says about a job that waits."""
    subject, view = message("job", name=says["job"]), observation.job(says["job"])
    if view is None or view.state.value != "Waiting" or observation.cluster is None:
        yield Mismatch(False, subject, "state", literal("Waiting"), literal(view.state.value) if view else _NO_JOB)
        return
    from paictl.operate import explaining  # late: few checks ask why, and it needs much

    answer = observation.cluster.explain(view.key)
    data = explaining.data(answer)
    if "decision" in says:
        yield exact(subject, "decision", says["decision"], data.get("decision"))
    if "text" in says:
        lines = explaining.lines(answer)
        finding = text(subject, "says", says["text"], "\n".join(lines))
        if "zh" in says:
            chinese = "\n".join(in_language(line, "zh") for line in lines)
            finding = in_both(finding, text(subject, "says", says["zh"], chinese))
        yield finding
    if "change" in says:
        kinds = [str(change["kind"]) for change in data.get("changes", ())]
        yield Mismatch(says["change"] in kinds, subject, "possible change", literal(says["change"]), _list(kinds))


# --- how things are


def service(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """How a service is."""
    subject = message("service", name=says["name"])
    view = next((view for view in observation.services if view.name == says["name"]), None)
    if view is None:
        yield Mismatch(False, subject, "", _EXISTS, NOTHING)
        return
    for key, is_so in (("running", view.running), ("ready", view.ready)):
        if key in says:
            yield exact(subject, key, YES_OR_NO[says[key]], YES_OR_NO[is_so])
    if "loaded" in says:
        newest = observation.configuration.number if observation.configuration else 0
        expected = newest if says["loaded"] == "newest" else says["loaded"] + observation.versions_before
        loaded = view.loaded if view.running else None
        yield exact(subject, "configuration loaded", expected, message("not-running") if loaded is None else loaded)
    if "reason" in says:
        yield text(subject, "remark", says["reason"], view.reason)


def configuration(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """The newest configuration."""
    newest, subject = observation.configuration, message("configuration")
    if "version" in says:
        yield number(subject, "version", says["version"], newest.number - observation.versions_before if newest else 0)
    name = says.get("file", "services-configuration.yaml")
    written = newest.files.get(name, "") if newest else ""
    yield from _holds(subject, says, written)


def _holds(subject: Message, says: Says, written: str) -> Iterator[Mismatch]:
    """Whether a text holds what it should, and not what it should not."""
    for key, present in (("text", True), ("no-text", False)):
        if key in says:
            matches = re.search(says[key], written, re.MULTILINE) is not None
            expected = message("holds" if present else "holds-not", what=quoted(plain(says[key])))
            yield Mismatch(
                matches is present, subject, "", expected, message("holds-it" if matches else "holds-it-not")
            )


def promise(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """What the newest configuration promises to a VC."""
    subject, promised = message("virtual-cluster", name=says["vc"]), observation.promised(says["vc"])
    missing = message("no-such-vc")
    if "absent" in says:
        yield _presence(subject, says["absent"], missing, promised)
    elif promised is None:
        yield Mismatch(False, subject, "", _EXISTS, missing)
    else:
        if "devices" in says:
            yield number(subject, "promised devices", says["devices"], promised.devices)
        for key, apart in (("apart-from", True), ("shares-with", False)):
            if key in says:
                other = observation.promised(says[key])
                shared = sorted({*promised.nodes} & {*other.nodes}) if other else []
                expected = message("no-shared-nodes" if apart else "shared-nodes", vc=says[key])
                yield Mismatch(bool(shared) is not apart, subject, "", expected, _list(shared))


def node(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """How a node is."""
    subject, missing = message("node", name=says["name"]), message("no-such-node")
    view = next((view for view in observation.nodes if view.machine.name == says["name"]), None)
    if "absent" in says:
        yield _presence(subject, says["absent"], missing, view)
    elif view is None:
        yield Mismatch(False, subject, "", _EXISTS, missing)
    else:
        if "condition" in says:
            yield exact(subject, "condition", says["condition"], view.condition.value)
        if "used" in says:
            yield number(subject, "devices used", says["used"], view.used)
        if "bad" in says:
            yield exact(subject, "bad devices", _list(says["bad"]), _list(view.bad_devices))


def usage(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """The device time of a virtual cluster since the cluster came up, as spans of one device."""
    subject = message("virtual-cluster", name=says["vc"])
    rows = (
        add_up(observation.cluster.usage(observation.cluster.epoch, observation.cluster.now).amounts, [Dimension.VC])
        if observation.cluster
        else []
    )
    row = next((row for row in rows if row.key == (says["vc"],)), UsageRow(()))
    for key, aspect in _DEVICE_TIME.items():
        if key in says:
            yield span(subject, aspect, says[key], getattr(row, key))


_DEVICE_TIME: Final = {
    "guaranteed": "device time guaranteed",
    "opportunistic": "device time opportunistic",
    "lost": "device time lost",
    "idle": "device time idle",
}


def user(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """An account, and which virtual clusters were granted to it."""
    subject, account = message("account", name=says["name"]), observation.accounts.get(says["name"])
    if "absent" in says:
        yield _presence(subject, says["absent"], message("no-such-user"), account)
    elif account is None:
        yield Mismatch(False, subject, "", _EXISTS, message("no-such-user"))
    elif "vcs" in says:
        yield exact(subject, "granted", _list(sorted(says["vcs"])), _list(sorted(account.vcs)))


def asked(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """A request of a user to the lab's server, and how it was answered."""
    subject = message("request", line=says["request"], user=says["user"])
    requests = matching_requests(observation.asked, says["user"], says["request"])
    expected = says.get("status", {"at-most": 399})
    if says.get("absent"):
        met = any(number(subject, "", expected, request.status).ok for request in requests)
        yield Mismatch(not met, subject, "", message("not-asked"), message("was-asked" if met else "not-asked"))
        return
    if not requests:
        yield Mismatch(False, subject, "", message("was-asked"), message("not-asked"))
        return
    best = next(
        (request.status for request in requests if number(subject, "", expected, request.status).ok),
        requests[-1].status,
    )
    yield number(subject, "status", expected, best)


def cluster(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """The cluster as a whole."""
    subject = message("cluster")
    if observation.cluster is None:
        yield Mismatch(False, subject, "", message("is-up"), message("not-up"))
        return
    totals = {
        "nodes": len(observation.nodes),
        "devices": sum(view.machine.devices for view in observation.nodes),
        "used": sum(view.used for view in observation.nodes),
        "jobs": len(observation.jobs),
    }
    for key, expected in says.items():
        if key == "time":
            yield span(subject, "time", expected, observation.now)
        elif key == "name":
            yield exact(subject, "name", expected, observation.cluster.name)
        else:
            yield number(subject, {"used": "devices used"}.get(key, key), expected, totals[key])


# --- what was typed, written and foretold


def typed(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """A command that did its work."""
    subject, commands = message("command", line=_shown(says["command"])), matching(observation.typed, says["command"])
    if not commands:
        yield Mismatch(False, subject, "", message("was-typed"), message("not-typed"))
        return
    ended = [command.exit for command in commands if command.exit != INTERRUPTED]
    if not ended:
        yield Mismatch(False, subject, "", message("was-typed"), message("was-interrupted"))
        return
    expected = says.get("exit", 0)
    codes = [bounds(expected)[0] if code in OUTPUT_CUT else code for code in ended]
    best = next((code for code in codes if number(subject, "", expected, code).ok), codes[-1])
    yield number(subject, "exit code", expected, best)


def refused(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """A command that was refused, and why; `zh` is how a Chinese reader is told what to expect."""
    wanted = quoted(plain(says["reason"]))
    expected = by_language({"en": wanted, "zh": quoted(plain(says["zh"]))}) if "zh" in says else wanted
    subject = message("command", line=_shown(says["command"]))
    tries = [command for command in matching(observation.typed, says["command"]) if command.message]
    messages = [f"{attempt.message}; {attempt.hint}" for attempt in tries]
    if tries:
        index = next((at for at, words in enumerate(messages) if re.search(says["reason"], words)), -1)
        mismatch = text(subject, "was refused", says["reason"], messages[index])
        read = quoted(tries[index].said) if tries[index].said else mismatch.observed
        yield replace(mismatch, expected=expected, observed=by_language({"en": mismatch.observed, "zh": read}))
    else:
        yield Mismatch(False, subject, "was refused", expected, message("not-refused"))


def file(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """A file in the student's folder; `text` is looked for in it."""
    subject, written = message("file", name=says["name"]), observation.file(says["name"])
    if written is None:
        yield Mismatch(False, subject, "", _EXISTS, message("no-such-file"))
        return
    yield Mismatch(True, subject, "", _EXISTS, _EXISTS)
    yield from _holds(subject, says, written)
    if "hosts" in says or "key" in says:
        yield from _read_as_paictl_does(subject, says, written)


def _read_as_paictl_does(subject: Message, says: Says, written: str) -> Iterator[Mismatch]:
    """Whether a host list names these hosts and no others, or a settings file has a key.

    Quotes, order and spaces do not matter.
    """
    from paictl.config.reading.load import load_memory  # late: few checks read files

    document = next(iter(load_memory({says["name"]: written}).documents))
    if "key" in says:
        has = isinstance(document.data, dict) and document.data.get(says["key"]) not in (None, "")
        yield Mismatch(
            has,
            subject,
            "",
            message("holds", what=quoted(f"{says['key']}:")),
            message("holds-it" if has else "holds-it-not"),
        )
    if "hosts" not in says:
        return
    rows = (tuple(field.stripped for field in row.fields[:2]) for row in document.rows if not row.comment)
    lines = dict.fromkeys(row for row in rows if any(row))
    for host, address in says["hosts"].items():
        listed = (host, address) in lines
        yield Mismatch(
            listed,
            subject,
            "",
            message("holds", what=quoted(f"{host},{address}")),
            message("holds-it" if listed else "holds-it-not"),
        )
    for line in lines:
        if line not in says["hosts"].items():
            expected = message("holds-not", what=quoted(",".join(line)))
            yield Mismatch(False, subject, "", expected, message("holds-it"))


def predicted(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """A prediction that was made before its step was carried out, whatever it says; or with `absent`, that was not."""
    words = {True: message("was-made"), False: message("not-made")}
    exists = says["step"] in observation.predictions
    yield exact(message("prediction", step=says["step"]), "", words[not says.get("absent")], words[exists])


def matching(typed: Iterable[TypedCommand], pattern: str) -> list[TypedCommand]:
    """The commands that a pattern of a manifest means."""
    return [command for command in typed if means(pattern, command.line)]


def _shown(pattern: str) -> str:
    """A pattern of command lines as a student reads it."""
    return pattern.replace("*", "…")
