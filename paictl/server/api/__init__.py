"""OpenPAI's REST API v2: the same paths, fields and status codes where its clients use them.

Each module holds the handlers of one thing and their `ROUTES`. A handler must never ask who may: `routing` has said so.
"""
