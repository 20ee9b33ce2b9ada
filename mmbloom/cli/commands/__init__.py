"""The commands, one file each: `register` declares the options, `run` does the work."""
