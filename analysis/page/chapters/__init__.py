"""What is told of results: one subject a file."""
