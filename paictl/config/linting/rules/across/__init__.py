"""Rules about files that belong together: those of one folder, or given together."""
