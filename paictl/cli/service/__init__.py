"""`paictl service`.

It must never start or stop anything itself: `paictl.operate` does.
"""
