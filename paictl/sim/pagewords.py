"""What the page of runs says besides figures and names; a test compares the list with the templates of the page."""

from __future__ import annotations

from typing import Final

PAGE_WORDS: Final = (
    "(no tenant)",
    "95% done within",
    "By how much, from most gained to most lost",
    "Completion times",
    "Device hours",
    "Devices in use",
    "Difference of completion times, {b} minus {a}, job by job from most gained to most lost",
    "Figures",
    "Fragmentation: free devices that lie on partly used nodes, of all devices",
    "In every chart: move the pointer, or the arrow keys once it has the focus, to read values.",
    "Job by job",
    "Number of jobs",
    "Jobs that wait",
    "Jobs that wait, over time",
    "Longest wait",
    "Mean completion",
    "Mean time without devices.",
    "Mean time without devices; the first 12 of {count} tenants, all are in the table.",
    "Mean wait",
    "Over time",
    "Parts of this page",
    "Run",
    "Runs",
    "Share of devices in use, over time",
    "Share of devices that are free on partly used nodes, over time",
    "Share of jobs by completion time",
    "Share of jobs that are done within a time after they were submitted; further left is better.",
    "Tenant",
    "Tenants",
    "The same job under both: how many are done earlier, and by how much.",
    "Under these policies places do not count.",
    "after {span}",
    "job",
    "within {span}",
    "{better} better, {same} same, {worse} worse",
    "{better} done earlier under {b}, by {gain} on average; {worse} later, by {loss}; {same} the same. "
    "Mean difference {mean}.",
    "{b} against {a}",
    "{count} better",
    "{count} same",
    "{count} worse",
    "{number} job",
    "{number} jobs",
    "{percent}% of the jobs",
    "{span} or less",
)
"""Keys of texts, as `said` of ``templates/pages/sim.js`` asks for them."""
