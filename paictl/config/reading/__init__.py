"""Reading: bytes to documents whose every value knows its place.

It must never judge what a value means: that is for the models and the rules.
"""
