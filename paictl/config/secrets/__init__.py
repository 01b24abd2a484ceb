"""Secrets of configuration files: which values are secret, and how they are starred out or sealed.

It must never write a secret in clear anywhere.
"""
