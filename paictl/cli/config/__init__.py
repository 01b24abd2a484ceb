"""`paictl config`.

It must never judge a file itself: `paictl.config` does.
"""
