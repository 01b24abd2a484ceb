"""Tests of `paictl.extender`."""
