"""Deduplicate lines and CSV rows: read inputs, find keys, write what is new.

``lines``       cuts a byte stream into lines, finds the key of each, and writes lines
``members``     finds a member of a JSON line
``rows``        cuts CSV into rows, and finds the columns that are the key of each
``inputs``      opens and decompresses an input, and cuts it into lines with their keys
``compressed``  decompresses data, and appends compressed frames to files
``outputs``     appends lines to a file, and refuses files that must not be outputs
``dedup``       writes each new line, then marks it as seen; `dedup_files`
``counts``      counts how often the key of each line occurs
"""
