"""The commands, a file each: `register` gives one its options, `run` carries it out."""
