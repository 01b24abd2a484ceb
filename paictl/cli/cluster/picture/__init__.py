"""The picture of a cluster on a terminal.

It must never ask a cluster: it draws what it is given.
"""
