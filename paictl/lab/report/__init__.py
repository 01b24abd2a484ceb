"""The report of a student's labs: content, files, text, page, and what a teacher checks.

It must never judge a student: it tells what was recorded, and whether the record contradicts itself.
"""
