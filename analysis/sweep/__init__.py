"""Running a study: tasks, who plays them, the journal that outlives a crash, and the folder with the results."""
