"""The results of commands, as documents."""
