"""Rules about service settings: sections that OpenPAI merges over its defaults without looking at them."""
