"""The promise: all that a second implementation must match. Opens nothing.

``header``          a file: its specification, and the one table that encodes and decodes it
``checker``         a rule that does not hold is a `FormatError`
``json_record``     a record in JSON: its text, format and version
``positions``       from the halves of a key's hash to its positions, for each layout
``manifest``        a folder: its specification and codec
``growth``          the sizes of a growing filter's files
``periods``         the periods of a rotating filter, and durations
``exclusion_list``  the text file of exclusions: its name and its lines
``slices``          a slice of a filter in a file of its own
``generations``     what slices belong together, and which came before
"""
