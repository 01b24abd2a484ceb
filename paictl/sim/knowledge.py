"""What a policy may know of the jobs. It says so (`Policy.knows`), and reading anything else raises."""

from __future__ import annotations

from enum import Enum

from paictl.errors import PaictlError


class Knowledge(Enum):
    """A kind of knowledge; the value is what it lets a policy read, as `paictl sim policies` shows it."""

    DURATION = "how long a job will run: work, remaining"
    DISTRIBUTION = "how GPU time is distributed over jobs, not of which job: Setup.history"
    REQUESTS = "which requests jobs make and how often, not of which job: Setup.requests"
    THROUGHPUT = "rate on each device type: throughput, iterations"
    SCALING = "rate by number of devices: scaling"
    LOCALITY = "rate when it is spread: sensitivity, spread"
    SKEW = "shape of the model: skew"
    DEADLINE = "deadlines and what they are worth: urge, deadlines"
    UTILISATION = "how busy it keeps a device, how much memory it needs: gpu_util, gpu_mem"
    COLOCATION = "rate beside another model: coloc, beside"
    MODEL = "which network it trains: model"
    RATE = "how fast it runs now, measured: rate"
    TRAINING = "what a job measures while it trains, and which batch sizes it may have: training, epoch"
    FACTS = "numbers for one policy alone: facts"


NOTHING: frozenset[Knowledge] = frozenset()
"""What a policy without prior knowledge declares: it sees requests, and what it can measure of time and devices."""


class KnowledgeError(PaictlError, TypeError):
    """A policy read what it has not declared."""

    def __init__(self, field: str, needed: Knowledge) -> None:
        super().__init__(
            f"the policy reads {field!r} of a job and does not declare that it knows it",
            hint=f"add Knowledge.{needed.name} to its `knows`, or do without",
        )
