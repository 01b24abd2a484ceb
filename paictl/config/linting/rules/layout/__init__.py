"""Rules about the machine layout: layout.yaml, in its newest and its legacy form."""
