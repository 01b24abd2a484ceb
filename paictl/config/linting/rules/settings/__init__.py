"""Rules about cluster settings: config.yaml."""
