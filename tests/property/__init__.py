"""Property tests: what is true of every scenario."""
