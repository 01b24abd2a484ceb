"""The policies, one file each: what it is, what it knows, its parameters, its order and its actions.

A policy must never touch the engine's state, read a clock or draw a random number of its own: it sees views and returns
actions. How to add one is in docs/adding-a-policy.md.
"""
