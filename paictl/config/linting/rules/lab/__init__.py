"""Rules about guided labs: what would make a lab unusable, or a check hollow."""
