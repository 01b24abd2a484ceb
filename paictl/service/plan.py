"""From a request about services and their states to ordered steps; nothing is done here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.service.catalogue import Catalogue
from paictl.service.order import ServiceError, needed_by, users_of


class Action(StrEnum):
    """What can be asked for services, and what a step does."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    DELETE = "delete"
    REFRESH = "refresh"


class ServiceState(StrEnum):
    """What a service is doing."""

    ABSENT = "absent"
    """Never started, or deleted with its data."""
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"

    @property
    def up(self) -> bool:
        """Whether it is there for others, or about to be."""
        return self in (ServiceState.RUNNING, ServiceState.STARTING)


States = Mapping[str, ServiceState]
"""State by service; a service that is not in it is absent."""


@frozen
class ServiceRequest:
    """An action for services: those in `names`, or all but those in `skip`, or all.

    `with_prerequisites` lets a start bring up what the services need and is not running; `take_over` makes ours what
    others have set; `with_data` lets a delete destroy data that could be kept.
    """

    action: Action
    names: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    with_prerequisites: bool = False
    take_over: bool = False
    with_data: bool = False


@frozen
class ServiceStep:
    """One thing to do to one service, and why; `action` is never `RESTART`, which is a stop and a start."""

    service: str
    action: Action
    reason: str


@frozen
class Remark:
    """Something to know about a service before the plan is carried out; one line without a full stop."""

    service: str
    text: str


@frozen
class Blocked:
    """A service that cannot be started: `missing` is what it needs and is not running, in start order."""

    service: str
    missing: tuple[str, ...]
    message: str
    hint: str


@frozen
class DataLoss:
    """Data that goes with a service that is deleted."""

    service: str
    data: tuple[str, ...]


@frozen
class ServicePlan:
    """What a request comes to.

    `steps` stand in the order in which they are to be done; `settled` says which services need nothing and why;
    `warnings` who will miss a service that goes; `blocked` is empty unless something must be started first;
    `losses` is what `delete` destroys.
    """

    request: ServiceRequest
    steps: tuple[ServiceStep, ...] = ()
    settled: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    losses: tuple[DataLoss, ...] = ()


def make_plan(
    request: ServiceRequest, catalogue: Catalogue, states: States, unchanged: Collection[str] = ()
) -> ServicePlan:
    """The steps that fulfil a request; raises `ServiceError` for unknown names, or names and skipped names together.

    Services that no other needs are stopped first, and started last. A blocked start leaves the other steps
    as they are: the caller that carries the plan out decides whether to do any of it. Services in `unchanged` would not
    differ after a refresh.
    """
    chosen = frozenset(chosen_services(request, catalogue))
    return _PLANNERS[request.action](_Context(request, catalogue, states, chosen, frozenset(unchanged)))


def chosen_services(request: ServiceRequest, catalogue: Catalogue) -> tuple[str, ...]:
    """The services that a request is about, in start order; raises `ServiceError` as `make_plan` does."""
    if request.names and request.skip:
        raise ServiceError("services are both named and skipped", hint="use either -n NAMES or -k NAMES")
    named, skipped = catalogue.known(request.names), catalogue.known(request.skip)
    return tuple(name for name in catalogue.services if (name in named or not named) and name not in skipped)


@frozen
class _Context:
    """What a planner looks at; `chosen` are the services that the request is about."""

    request: ServiceRequest
    catalogue: Catalogue
    states: States
    chosen: frozenset[str]
    unchanged: frozenset[str] = frozenset()

    def state(self, name: str) -> ServiceState:
        return self.states.get(name, ServiceState.ABSENT)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Names in start order."""
        return tuple(service.name for service in self.catalogue if service.name in names)

    @property
    def there(self) -> tuple[str, ...]:
        """The chosen services that can be stopped, in start order; a failed one may have left something running."""
        return tuple(
            name
            for name in self.in_order(self.chosen)
            if self.state(name).up or self.state(name) is ServiceState.FAILED
        )

    def up(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.in_order(names) if self.state(name).up)

    def down(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.in_order(names) if not self.state(name).up)


def _start(context: _Context) -> ServicePlan:
    there = [name for name in context.in_order(context.chosen) if context.state(name) is ServiceState.RUNNING]
    settled = tuple(Remark(name, f"is {context.state(name)} already") for name in there)
    steps, blocked = _starts(context, context.chosen - frozenset(there))
    return ServicePlan(context.request, steps, settled, blocked=blocked)


def _starts(context: _Context, names: Collection[str]) -> tuple[tuple[ServiceStep, ...], tuple[Blocked, ...]]:
    """Steps that start services, and those that cannot be started because of what they need."""
    graph = context.catalogue.graph
    wanted = set(names)
    if context.request.with_prerequisites:
        wanted.update(context.down(needed_by(graph, names) - set(context.request.skip)))
    steps: list[ServiceStep] = []
    blocked: list[Blocked] = []
    for name in context.in_order(wanted):
        missing = context.down(needed_by(graph, [name]) - wanted)
        if missing:
            blocked.append(_blocked(context, name, missing))
        else:
            steps.append(ServiceStep(name, Action.START, _why_start(context, name)))
    return tuple(steps), tuple(blocked)


def _why_start(context: _Context, name: str) -> str:
    if name in context.chosen:
        state = context.state(name)
        return "will be restarted" if state is ServiceState.RUNNING else f"is {state}"
    users = context.in_order(users_of(context.catalogue.graph, [name]) & context.chosen)
    return text("is needed by {users}", users=listed(users))


def _blocked(context: _Context, name: str, missing: tuple[str, ...]) -> Blocked:
    states = listed([f"{need} ({context.state(need)})" for need in missing])
    them = "it" if len(missing) == 1 else "them"
    command = " ".join(f"-n {need}" for need in missing)
    return Blocked(
        name,
        missing,
        text("{name} needs {states}", name=name, states=states),
        text(
            "start {them} too with --with-prerequisites, or first: paictl service start {command}",
            them=text(them),
            command=command,
        ),
    )


def _stop(context: _Context) -> ServicePlan:
    there = context.there
    steps = tuple(ServiceStep(name, Action.STOP, f"is {context.state(name)}") for name in reversed(there))
    rest = context.in_order(context.chosen - frozenset(there))
    settled = tuple(Remark(name, f"is {context.state(name)} already") for name in rest)
    return ServicePlan(context.request, steps, settled, _left_alone(context, there, _FOR_GOOD))


_FOR_GOOD = (
    "is needed by {users}, which keeps running without it",
    "is needed by {users}, which keep running without it",
)
_MEANWHILE = (
    "is needed by {users}, which keeps running without it until it is back",
    "is needed by {users}, which keep running without it until it is back",
)


def _left_alone(context: _Context, going: Collection[str], consequence: tuple[str, str]) -> tuple[Remark, ...]:
    """A warning for each service that goes while others that need it stay; `consequence` for one and for several."""
    warnings: list[Remark] = []
    for name in reversed(context.in_order(going)):
        users = context.up(users_of(context.catalogue.graph, [name]) - context.chosen)
        if users:
            warnings.append(Remark(name, text(consequence[len(users) > 1], users=listed(users))))
    return tuple(warnings)


def _restart(context: _Context) -> ServicePlan:
    starts, blocked = _starts(context, context.chosen)
    # A service that could not be started again keeps running: half a restart is worse than none.
    going = frozenset(context.there) - {entry.service for entry in blocked}
    stops = tuple(
        ServiceStep(name, Action.STOP, "is started again afterwards") for name in reversed(context.in_order(going))
    )
    return ServicePlan(context.request, stops + starts, (), _left_alone(context, going, _MEANWHILE), blocked)


def _delete(context: _Context) -> ServicePlan:
    there = [name for name in context.in_order(context.chosen) if context.state(name) is not ServiceState.ABSENT]
    steps = tuple(ServiceStep(name, Action.DELETE, f"is {context.state(name)}") for name in reversed(there))
    settled = tuple(Remark(name, "is absent already") for name in context.in_order(context.chosen - frozenset(there)))
    losses = tuple(
        DataLoss(name, context.catalogue[name].data) for name in reversed(there) if context.catalogue[name].data
    )
    return ServicePlan(context.request, steps, settled, _left_alone(context, there, _FOR_GOOD), losses=losses)


def _refresh(context: _Context) -> ServicePlan:
    same = [name for name in context.up(context.chosen) if name in context.unchanged]
    running = [name for name in context.up(context.chosen) if name not in context.unchanged]
    steps = tuple(ServiceStep(name, Action.REFRESH, "reads the configuration that was pushed last") for name in running)
    rest = context.down(context.chosen)
    settled = [Remark(name, "is already up to date") for name in same]
    settled += [Remark(name, f"is {context.state(name)} and reads the configuration when it starts") for name in rest]
    return ServicePlan(context.request, steps, tuple(settled))


_PLANNERS: dict[Action, Callable[[_Context], ServicePlan]] = {
    Action.START: _start,
    Action.STOP: _stop,
    Action.RESTART: _restart,
    Action.DELETE: _delete,
    Action.REFRESH: _refresh,
}


def listed(names: Collection[str]) -> str:
    """Names as a sentence holds them: ``a, b and c``."""
    words = list(names)
    if len(words) == 1:
        return words[0]
    return text("{some} and {last}", some=", ".join(words[:-1]), last=words[-1])
