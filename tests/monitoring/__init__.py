"""Configuration, rules and dashboards of the monitoring services, put to the real programs: `make monitoring`."""
