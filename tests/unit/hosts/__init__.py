"""Tests of `tools.hosts`: what of it needs no hosts."""
