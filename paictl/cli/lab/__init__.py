"""`paictl lab`.

It must never keep the progress of a student itself: `paictl.lab` does.
"""
