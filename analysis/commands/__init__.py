"""The commands of ``cli.py`` by subject: parse, call, print."""
