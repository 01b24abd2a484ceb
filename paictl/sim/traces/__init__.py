"""Traces of jobs: one reader a format, all of them in one table.

Units become whole milliseconds. A row that is no job is left out, counted, and reported with its line. This package
must never make up what a file does not say: where a reader had to choose, its text says so.
"""
