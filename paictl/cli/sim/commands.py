"""`paictl sim`: play traces of jobs without a cluster."""

from __future__ import annotations

from paictl.cli.command import App
from paictl.cli.sim import compare, lists, run, size, sweep, what_if

EXAMPLES = """
    paictl sim policies
    paictl sim run tiny --policy fifo --cluster 2x4
    paictl sim compare tiny --policy fifo --policy srtf --cluster 2x4
"""

app = App(help="Simulate scheduling policies on traces of jobs.", epilog=EXAMPLES)
app.command("run", epilog=run.EPILOG)(run.run)
app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("sweep", epilog=sweep.EPILOG)(sweep.sweep)
app.command("size", epilog=size.EPILOG)(size.size)
app.command("what-if", epilog=what_if.EPILOG)(what_if.what_if)
app.command("policies", epilog=lists.POLICIES_EPILOG)(lists.policies)
app.command("traces", epilog=lists.TRACES_EPILOG)(lists.traces)
app.command("generate", epilog=lists.GENERATE_EPILOG)(lists.generate)


@app.callback()
def sim() -> None:
    """Simulate scheduling policies on traces of jobs."""
