"""Rules about the text itself: encoding, YAML syntax, keys written twice, values read as something else."""
