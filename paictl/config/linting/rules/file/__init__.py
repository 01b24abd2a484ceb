"""Rules about a file as a whole: its kind, its comments to paictl, what an editor made of its quotation marks."""
