"""Making: files of a configuration from host lists and a description of the machines.

It must never overwrite what it was not told to.
"""
