"""`paictl job explain`: why a job is waiting."""

from __future__ import annotations

from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.console import Output, localized, write, write_data
from paictl.cli.job.options import JobName, find
from paictl.cli.settings import settings
from paictl.operate import explaining

app = App()


@app.command(
    epilog="""
    paictl job explain train
    paictl job explain train -o wide
    paictl job explain train -o json
"""
)
def explain(job: JobName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Explain why a job is waiting, and the smallest change that would let it run.

    With -o wide, also shows what was found in each place that was tried, and the largest smaller job that would not
    wait.
    """
    cluster = open_cluster(state)
    explanation = cluster.explain(find(cluster, job).key)
    if output is not Output.TABLE:
        write_data(explaining.data(explanation), output)
        return
    for line in explaining.lines(explanation, full=settings.wide):
        write(localized(line))
