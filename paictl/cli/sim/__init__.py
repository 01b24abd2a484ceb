"""`paictl sim`.

It must never compute a figure itself: `paictl.sim` does.
"""
