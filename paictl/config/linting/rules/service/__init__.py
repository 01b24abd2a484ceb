"""Rules about service descriptions: what the deployment would stumble over."""
