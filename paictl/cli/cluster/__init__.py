"""`paictl cluster`.

It must never compute what it shows.
"""
