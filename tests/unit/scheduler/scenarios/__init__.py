"""Small clusters and random histories on them, shared by the tests of the scheduler."""
