"""`paictl scheduler`.

It must never decide anything itself: `paictl.scheduler` does.
"""
