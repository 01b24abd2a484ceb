"""Services: a request is planned on what the cluster shows, and the plan carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paictl.cluster.interface import Services, ServiceView
from paictl.errors import PaictlError
from paictl.plan.events import Listener
from paictl.service.carry_out import Patience, ServiceOutcome, carry_out
from paictl.service.catalogue import Catalogue, Service, load_catalogue
from paictl.service.live import Ports, losses_on, observe
from paictl.service.plan import Action, Plan, ServiceRequest, chosen_services, make_plan
from paictl.service.readiness import Readiness, readiness_of


@dataclass(frozen=True, slots=True)
class Listed:
    """A service of the catalogue, and what the cluster shows of it; None where it was never started or was deleted."""

    service: Service
    view: ServiceView | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan for a cluster, with what it would destroy there."""

    plan: Plan
    catalogue: Catalogue

    @property
    def sweeping(self) -> bool:
        """Whether services go that nobody named: all of them, or all but some."""
        return not self.plan.request.names and self.plan.request.action is not Action.START and bool(self.plan.steps)


def list_services(cluster: Services) -> list[Listed]:
    """All services in the order in which they start."""
    views = {view.name: view for view in cluster.services()}
    return [Listed(service, views.get(service.name)) for service in load_catalogue()]


def readiness(cluster: Ports, request: ServiceRequest) -> list[Readiness]:
    """Whether the services of a request do their work, in start order; raises `ServiceError` for unknown names."""
    catalogue, observed = load_catalogue(), observe(cluster)
    return [readiness_of(name, catalogue, observed) for name in chosen_services(request, catalogue)]


def prepare(cluster: Ports, request: ServiceRequest) -> Prepared:
    """The steps that fulfil a request on a cluster; raises `ServiceError` for unknown names."""
    catalogue = load_catalogue()
    plan = make_plan(request, catalogue, observe(cluster).states)
    return Prepared(replace(plan, losses=losses_on(plan, cluster)), catalogue)


def perform(
    cluster: Services, prepared: Prepared, listen: Listener = lambda _: None, patience: Patience | None = None
) -> tuple[ServiceOutcome, ...]:
    """Carry a plan out; raises `PaictlError` with the way out, and does nothing, if something has to start first."""
    if prepared.plan.blocked:
        raise PaictlError("nothing was done", hint=prepared.plan.blocked[0].hint)
    return carry_out(prepared.plan, prepared.catalogue, cluster, listen, patience)
