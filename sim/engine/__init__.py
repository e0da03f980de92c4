"""The engine: prepared scenario in, result of one replication out."""
