"""`paictl node`.

It must never change a node itself: `paictl.operate` and `paictl.deploy` do.
"""
