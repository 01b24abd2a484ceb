"""Tests of `paictl.remote`: what talks to the outside, with the outside played by the test."""
