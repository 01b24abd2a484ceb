"""Which devices a job gets: the policy's own book of what is free.

A placement must never see the engine's state: it takes and gives back what the policy tells it to, so that a policy may
try things out; the engine checks the result against the truth.
"""
