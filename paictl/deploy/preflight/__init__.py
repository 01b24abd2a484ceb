"""Looking at hosts before anything is installed on them, and judging what was found.

`script` runs on each host, once, and tells facts; `checks` judge facts and are pure; `checking` brings both together.
It must never change anything on a host, and must never ask a host without GPUs about them.
"""
