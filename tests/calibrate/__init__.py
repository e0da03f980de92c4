"""From published measurements to the numbers of a model: fits that anybody with the data can repeat."""
