"""The command line: one module a command group; everything else is in the packages below it.

A command reads its options, calls a function that returns data, and renders it. This package must hold no logic that a
script, a lab or a test would want to call: if it does, it belongs one package further down. It is the only one that
imports typer and rich.
"""
