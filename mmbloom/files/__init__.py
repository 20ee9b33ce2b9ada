"""Inputs and outputs: opened, decompressed, cut into lines or rows, deduplicated.

``inputs``      open an input; what is compressed is decompressed
``frames``      which kinds of compressed data there are, and their frames, decompressed
``compressed``  append to a compressed file, whole frame by whole frame
``outputs``     append lines to a file; on the disk before their marks are
``apart``       which file an output may not be
``keyed``       the lines of an input with what finds their keys, and its header
``dedup``       each line of files once, as ``mmbloom dedup`` does it
"""
