"""OpenID Connect: what a provider says about itself, its keys, and who its tokens are about.

`signatures` checks RSA and ECDSA by arithmetic alone, `tokens` reads and judges a token, `provider` asks the provider.
It must never decide who may do what, nor log or keep a token.
"""
