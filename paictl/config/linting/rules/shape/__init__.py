"""Rules about shape: what the JSON Schema of a file's kind does not allow."""
