"""Rules about jobs: what OpenPAI's server and HiveD refuse, or take for something else than written."""
