"""What the reader stumbled over: encoding, YAML syntax, keys written twice, values read as something else."""
