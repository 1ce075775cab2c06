"""One run, from start to finish."""
