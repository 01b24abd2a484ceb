"""Simulated time: the event loop of the simulator and of the embedded cluster, and the comparison of policies on a
trace of jobs.

This package must never read a clock, sleep or draw a random number by itself: the same events give the same run.
"""
