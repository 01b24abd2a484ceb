"""`paictl placer`.

It must never decide anything itself: `paictl.placer` does.
"""
