"""The texts of the labs, one table a language; it must hold no logic."""
