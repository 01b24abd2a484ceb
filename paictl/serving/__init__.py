"""HTTP that anybody may reach: bodies in time and in bounds, connections that give way, turns, an end in good order.

Extender, placer, job controller and REST server stand on it; it must never know what they answer.
"""
