"""Published values, theory and other programs against ours: a table, a verdict on each row, and what is not checked."""
