"""Use cases: what a push, a submit, a service verb or a change of a node *does*, with typed results.

One function a use case; it takes the ports of a cluster that it needs and plain values, and gives back what happened as
data. The command line, labs and servers render it. A use case must never print, ask a question, or know what kind of
cluster it works on; where somebody has to agree first, planning and doing are two functions.
"""
