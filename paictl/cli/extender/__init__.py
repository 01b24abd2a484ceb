"""`paictl extender`.

It must never decide anything itself: `paictl.extender` does.
"""
