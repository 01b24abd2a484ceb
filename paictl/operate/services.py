"""Services: a request is planned on what the cluster shows, and the plan carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from paictl.cluster.capabilities import HandClock
from paictl.cluster.interface import NodeDriver, Protection, Services, ServiceView
from paictl.cluster.kubernetes.names import SCHEDULER
from paictl.config.models.services import DRIVER
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.plan.events import Listener
from paictl.service.carry_out import Patience, ServiceOutcome, carry_out
from paictl.service.catalogue import Catalogue, Service, load_catalogue
from paictl.service.plan import Action, ServicePlan, ServiceRequest, chosen_services, make_plan
from paictl.service.readiness import LiveServicePorts, Readiness, losses_on, observe, readiness_of

WORKERS: Final = 8
"""Steps of a plan that are under way at the same time on a real cluster."""


@frozen
class ListedService:
    """A service of the catalogue, and what the cluster shows of it; None where it was never started or was deleted."""

    service: Service
    view: ServiceView | None


@frozen
class LeftOut:
    """A service that machines without a registry cannot run: images that it lacks, or a service that is left out."""

    service: str
    images: tuple[str, ...] = ()
    needs: str = ""

    @property
    def why(self) -> Text:
        """The reason for people."""
        if self.images:
            images = ", ".join(self.images)
            return text("not started, its image is not among the artifacts: {images}", images=images)
        return text("not started, it needs {service}", service=self.needs)


@frozen
class Prepared:
    """A plan for a cluster, with what it would destroy there."""

    plan: ServicePlan
    catalogue: Catalogue
    stale: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Objects that the services of the plan lose, because the newest configuration has them no more."""
    data_stay: bool = False
    """Whether the data in `plan.losses` are kept."""
    left: tuple[LeftOut, ...] = ()
    """Services that were not named and cannot run here."""

    @property
    def sweeping(self) -> bool:
        """Whether services are affected that were not named: all of them, or all but some."""
        return not self.plan.request.names and self.plan.request.action is not Action.START and bool(self.plan.steps)


@frozen
class Condition:
    """How a service is: whether it does its work, and what is not as it was applied; `view` is None where absent."""

    readiness: Readiness
    view: ServiceView | None
    drift: tuple[str, ...] = ()
    protections: tuple[Protection, ...] = ()
    """Of the scheduler only: what protects tenants from each other."""
    drivers: tuple[NodeDriver, ...] = ()
    """Of `gpu-driver` only: the driver of each node with NVIDIA GPUs."""

    @property
    def good(self) -> bool:
        """Whether it does its work and is unchanged."""
        return self.readiness.ready and not self.drift


def list_services(cluster: Services) -> list[ListedService]:
    """All services in the order in which they start."""
    views = {view.name: view for view in cluster.services(closely=True)}
    return [ListedService(service, views.get(service.name)) for service in load_catalogue()]


def conditions(cluster: LiveServicePorts, request: ServiceRequest) -> list[Condition]:
    """How the services of a request are, in start order; raises `ServiceError` for unknown names."""
    catalogue = load_catalogue()
    names, views = chosen_services(request, catalogue), {view.name: view for view in cluster.services(closely=True)}
    observed = observe(cluster, views.values())
    drift = {name: tuple(cluster.drift(name)) for name in names if name in views}
    guards = tuple(cluster.protections()) if SCHEDULER in names and SCHEDULER in views else ()
    return [
        Condition(
            readiness_of(name, catalogue, observed),
            views.get(name),
            drift.get(name, ()),
            guards if name == SCHEDULER else (),
            tuple(cluster.drivers()) if name == DRIVER and name in views else (),
        )
        for name in names
    ]


def prepare(cluster: LiveServicePorts, request: ServiceRequest) -> Prepared:
    """The steps that fulfil a request on a cluster; raises `ServiceError` for unknown names.

    A start of all leaves out what has to pull an image where machines reach no registry: it would wait in vain.
    """
    catalogue = load_catalogue()
    views = cluster.services(closely=request.action not in (Action.STOP, Action.DELETE))
    unchanged = [
        view.name for view in views if view.changed is False and not (request.take_over and cluster.drift(view.name))
    ]
    omissions: tuple[LeftOut, ...] = ()
    if request.action is Action.START and not request.names:
        omissions = left_out(cluster.lacking(), catalogue, request.skip, [view.name for view in views if view.running])
        request = replace(request, skip=(*request.skip, *(omission.service for omission in omissions)))
    plan = make_plan(request, catalogue, observe(cluster, views).states, unchanged)
    touched = {step.service for step in plan.steps}
    stale = {view.name: view.stale for view in views if view.stale and view.name in touched}
    data_stay = cluster.keeps_data and not request.with_data
    return Prepared(replace(plan, losses=losses_on(plan, cluster)), catalogue, stale, data_stay, omissions)


def left_out(
    lacking: Mapping[str, Sequence[str]], catalogue: Catalogue, skipped: Collection[str], running: Collection[str]
) -> tuple[LeftOut, ...]:
    """The services that cannot run without the images that they lack, and those that need them, in start order.

    What runs already is not among them, whoever has brought its image, and neither is what is skipped anyway.
    """
    omissions: dict[str, LeftOut] = {}
    for name in (service for service in catalogue.services if service not in running):
        images = tuple(lacking.get(name, ()))
        need = next((need for need in catalogue[name].prerequisites if need in omissions), "")
        if images or need:
            omissions[name] = LeftOut(name, images, need)
    return tuple(omission for omission in omissions.values() if omission.service not in skipped)


def perform(
    cluster: Services, prepared: Prepared, listen: Listener = lambda _: None, patience: Patience | None = None
) -> tuple[ServiceOutcome, ...]:
    """Carry a plan out; raises `PaictlError` with the way out, and does nothing, if something has to start first.

    Where time is imagined one step is done after the other, so that what happens is always the same.
    """
    if prepared.plan.blocked:
        raise PaictlError("nothing was done", hint=prepared.plan.blocked[0].hint)
    workers = 1 if isinstance(cluster, HandClock) else WORKERS
    return carry_out(prepared.plan, prepared.catalogue, cluster, listen, patience, workers=workers)
