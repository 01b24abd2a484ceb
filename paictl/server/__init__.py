"""`paictl serve`: OpenPAI's REST API v2 and the portal as one ASGI application over the `Cluster` interface.

`routing` holds the one table of what can be asked and who may; `app` is the way of a request from the socket to its
handler and back; `api` and `portal` are handlers, which run in threads and never see the network. No handler may decide
who somebody is. The package must never keep state that is not in the cluster, but for sign-ins that failed.
"""
