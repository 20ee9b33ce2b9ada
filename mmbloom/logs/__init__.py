"""Logs: inputs cut into lines or rows, deduplicated, and written.

``lines``       lines of a byte stream, and which part of each is its key; writes lines
``members``     the member of a line of JSON that is its key
``rows``        the same for CSV: rows, and the columns of each that are its key
``inputs``      opens an input, decompressed, and cuts it into lines with their keys
``compressed``  compressed data, decompressed and appended frame by frame
``outputs``     appends lines to a file; which file an output may not be
``dedup``       writes each line once, and marks it after it is written; `dedup_files`
``counts``      how often each line occurs
"""
