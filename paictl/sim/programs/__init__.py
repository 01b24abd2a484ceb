"""The mathematical programs of policies: shares of device types, leases, curves that fit.

They must never know a cluster, a clock or a policy: numbers in, numbers out, solved by HiGHS and scipy.
"""
