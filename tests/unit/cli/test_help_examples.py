"""Help begins with what one can type."""

from __future__ import annotations

import shlex

import pytest

from paictl.cli.cluster.commands import VERBS as CLUSTER_VERBS
from paictl.cli.command import Lazy
from paictl.cli.deploy.commands import VERBS as DEPLOY_VERBS
from paictl.cli.extender.commands import VERBS as EXTENDER_VERBS
from paictl.cli.job.commands import VERBS as JOB_VERBS
from paictl.cli.sim.commands import VERBS as SIM_VERBS
from tests.unit.cli.conftest import Paictl

GROUPS = ("config", "job", "node", "cluster", "service", "user", "sim", "scheduler", "lab")


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_has_examples_of_commands_that_are_there(group: str, paictl: Paictl) -> None:
    page = paictl(group, "--help").out
    lines = page.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(line)
        assert words[:2] == ["paictl", group]
        options = {word for word in words if word.startswith("-")}
        help_page = paictl(*words[1:3], "--help").out
        assert all(option in help_page for option in options)


OF_THEIR_OWN = {"kubeconfig"}
"""Groups whose summary is not the first sentence of their help."""
TABLES = {
    "cluster": CLUSTER_VERBS,
    "deploy": DEPLOY_VERBS,
    "extender": EXTENDER_VERBS,
    "job": JOB_VERBS,
    "sim": SIM_VERBS,
}
LATE = [
    (group, verb, lazy) for group, verbs in TABLES.items() for verb, lazy in verbs.items() if verb not in OF_THEIR_OWN
]


@pytest.mark.parametrize(("group", "verb", "lazy"), LATE)
def test_the_summary_of_a_verb_that_is_loaded_late_is_that_of_its_own_help(
    group: str, verb: str, lazy: Lazy, paictl: Paictl
) -> None:
    assert " ".join(lazy.help.split()) in " ".join(paictl(group, verb, "--help").out.split())
