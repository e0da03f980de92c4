"""What is stated of results: one subject a file."""
