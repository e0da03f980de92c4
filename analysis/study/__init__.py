"""A study before anything runs: a scenario, the axes that vary in it, the points of its design, and its questions."""
