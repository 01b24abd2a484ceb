"""Pages for administrators, one module each: users, nodes, services, the history of the configuration."""
