"""Traces of jobs: one reader for each format, all of them in one table.

Units become whole milliseconds. A row that is not a job is left out, counted, and reported with its line. This package
must never make up what a file does not contain: where a reader has to choose, its description says so.
"""
