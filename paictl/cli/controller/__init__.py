"""`paictl controller`.

It must never decide anything itself: `paictl.controller` does.
"""
