"""`paictl deploy`.

It must never reach a host itself: `paictl.deploy` and `paictl.remote` do.
"""
