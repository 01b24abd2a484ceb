"""Pushing: what a push would make of the configuration of a cluster.

It must never talk to a cluster.
"""
