"""Running a study: tasks, where they run, the journal that outlives a crash, and the folder with the results."""
