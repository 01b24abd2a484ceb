"""`paictl job`.

It must never decide what may run: `paictl.operate.jobs` asks the cluster.
"""
