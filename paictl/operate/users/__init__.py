"""Users of a cluster: passwords, accounts with what they may do, tokens.

Rules only: what is kept, the port `Users` keeps. It must never log or return a password, nor store a token.
"""
