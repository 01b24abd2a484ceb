"""The scheduler core: who runs where, who waits and why, who is preempted; no tenant's guarantee is ever broken.

One immutable tree (`paictl.cells.tree`), small ledgers with one invariant each, one journal, pure placement
search and one façade, `engine.Engine`, with `plan`, `apply` and `observe`. Decisions are data; same state, same
decision. It must never read a clock, a random number, a file or the environment, log, or import anything but
the standard library, `paictl.errors` and `paictl.cells`.
"""
