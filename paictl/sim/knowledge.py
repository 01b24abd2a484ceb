"""What a policy may know about jobs. It declares that (`Policy.knows`), and reading anything else raises."""

from __future__ import annotations

from enum import Enum

from paictl.errors import PaictlError


class Knowledge(Enum):
    """A kind of knowledge; the value is what it lets a policy read, as `paictl sim policies` shows it."""

    DURATION = "how long a job will run: work, remaining"
    DISTRIBUTION = "the distribution of GPU time over jobs, but not the time of each job: Setup.history"
    REQUESTS = "the distribution of requests, but not the request of each job: Setup.requests"
    THROUGHPUT = "rate on each device type: throughput, iterations"
    SCALING = "rate by number of devices: scaling"
    LOCALITY = "rate across nodes: sensitivity, spread"
    SKEW = "shape of the model: skew"
    DEADLINE = "deadlines and their values: urge, deadlines"
    UTILISATION = "device utilization and memory: gpu_util, gpu_mem"
    COLOCATION = "rate beside another model: coloc, beside"
    MODEL = "the network that it trains: model"
    RATE = "its measured speed: rate"
    TRAINING = "its measurements during training, and its possible batch sizes: training, epoch"
    FACTS = "facts for a single policy: facts"


NOTHING: frozenset[Knowledge] = frozenset()
"""For a policy without prior knowledge: it sees requests, and what it can measure of time and devices."""


class KnowledgeError(PaictlError, TypeError):
    """A policy read something that it has not declared."""

    def __init__(self, field: str, needed: Knowledge) -> None:
        super().__init__(
            f"the policy reads {field!r} of a job and does not declare that it knows it",
            hint=f"add Knowledge.{needed.name} to its `knows`, or do without",
        )
