"""Services of a cluster: which there are, what they need, and the steps that a request about them takes.

`catalogue` reads `templates/<service>/service.yaml`; `order` sorts by prerequisites; `plan` turns a request (start,
stop, restart, delete, refresh) and the states of the services into steps; `readiness` says why one is not ready.

This package decides and explains. It must never change a cluster: a plan is data, and whoever has a cluster carries it
out; nor must it print, or hold anything about one service that is not in its description.
"""
