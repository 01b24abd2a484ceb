"""Kubernetes over HTTP: what of a cluster's API paictl uses, as plain JSON values.

Configuration files, contexts, credentials and TLS are the business of the `kubernetes` library; requests go through
its connection pool without its classes for every type, whose making costs milliseconds an object, which a list of
ten thousand pods cannot afford. Nothing here knows what a pod asks for; it must never decide anything.
"""
