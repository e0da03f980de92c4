"""What a study is before anything runs: a scenario, what varies in it, which points are looked at, what is asked."""
