"""Why a pod waits, from its VC's quota over cells and nodes to the jobs in its way, and what would let it run.

`explain` makes data, `render` plain English; `to_data` and `from_data` convert to JSON values and back. All of it is
computed on demand, at no cost to planning. What would help is not deduced but tried, in a scratch that always rolls
back; this package must never leave a change behind, and never claim what it has not seen happen.
"""

from paictl.scheduler.explain.data import Explanation, PodVerdict, from_data, to_data
from paictl.scheduler.explain.text import Names
from paictl.scheduler.explain.why import explain
from paictl.scheduler.explain.wording import ExplanationText, render, wording

__all__ = [
    "Explanation",
    "ExplanationText",
    "Names",
    "PodVerdict",
    "explain",
    "from_data",
    "render",
    "to_data",
    "wording",
]
