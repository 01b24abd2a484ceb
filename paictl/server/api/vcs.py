"""Virtual clusters: what was promised and what of it is used."""

from __future__ import annotations

from typing import Any, Final

from paictl.cluster.picture import Picture, VcPicture
from paictl.i18n import text
from paictl.server.calls import Answer, ApiError, Call, json_answer
from paictl.server.routing import Access, Operation, Route

_TAG: Final = "virtual cluster"


def vcs(call: Call) -> Answer:
    """All of them by name."""
    picture = call.cluster.picture()
    return json_answer({vc.name: _data(vc, picture) for vc in picture.vcs})


def vc(call: Call) -> Answer:
    """One of them."""
    picture = call.cluster.picture()
    for entry in picture.vcs:
        if entry.name == call.path["vc"]:
            return json_answer(_data(entry, picture))
    raise ApiError(404, "NoVirtualClusterError", text("no virtual cluster {vc!r}", vc=call.path["vc"]))


def _data(vc_picture: VcPicture, picture: Picture) -> dict[str, Any]:
    """Capacities in percent of all devices. Cores and memory go with devices, as they do on the nodes."""
    total = sum(other.quota for other in picture.vcs) or 1
    doomed = sum(len(cell.users) for cell in vc_picture.cells if cell.state.value == "Doomed")
    return {
        "capacity": 100 * vc_picture.quota / total,
        "usedCapacity": 100 * vc_picture.used / total,
        "maxCapacity": 100 * vc_picture.quota / total,
        "dedicated": False,
        "resourcesUsed": _resources(vc_picture.used, picture),
        "resourcesGuaranteed": _resources(vc_picture.quota - doomed, picture),
        "resourcesTotal": _resources(vc_picture.quota, picture),
        "waitingJobs": vc_picture.waiting,
    }


def _resources(devices: int, picture: Picture) -> dict[str, int]:
    """Cores, memory (MiB) and devices."""
    machines = [node.machine for node in picture.nodes if node.machine.devices]
    all_devices = sum(machine.devices for machine in machines) or 1
    cpu = sum(machine.cpu for machine in machines) * devices // all_devices
    memory = sum(machine.memory for machine in machines) // 2**20 * devices // all_devices
    return {"cpu": cpu, "vCores": cpu, "memory": memory, "gpu": devices, "GPUs": devices}


ROUTES: Final = (
    Route("GET", "/api/v2/virtual-clusters", Access.USER, vcs, Operation("All virtual clusters", _TAG), jobs=True),
    Route(
        "GET", "/api/v2/virtual-clusters/{vc}", Access.USER, vc,
        Operation("A virtual cluster", _TAG, (200, 404)), jobs=True,
    ),
)  # fmt: skip
