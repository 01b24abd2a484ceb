"""First in, first out, without overtaking."""

from __future__ import annotations

from collections import deque

from paictl.sim.actions import Trigger
from paictl.sim.policies.base import Policy, Setup
from paictl.sim.view import JobView


class Fifo(Policy):
    """Jobs start in the order of (submission, row). The first job without a place blocks all later ones.

    With `placement=consolidate` it is what Tiresias' paper calls "YARN-CS". Example: `fifo:placement=consolidate`.
    """

    id = "fifo"
    title = "first in, first out; the head of the line blocks"
    paper = "Tiresias (NSDI'19) §6, baseline; simulator SymbioticLab/Tiresias@959f9b0 `--schedule=fifo`"
    endures = True

    def __init__(self, parameters: object, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._line: deque[JobView] = deque()

    def plan(self, moment: Trigger) -> None:
        """Start from the head of the line until it does not fit."""
        self._line.extend(moment.arrived)
        while self._line and self._line[0].gpus <= self.placement.free and self.start(self._line[0]):
            self._line.popleft()
