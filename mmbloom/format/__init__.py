"""The file formats: all that a second implementation must match. Opens nothing.

``header``      a file: its specification, and the table that encodes and decodes it
``checker``     checks of bytes and of JSON records, which raise `FormatError`
``positions``   from the halves of a key's hash to its positions, for each layout
``folder``      a folder: its manifest, the sizes of growing files, the periods of rotating ones
``exclusions``  the text file of exclusions: its name and its lines
``slices``      the file of one slice of a filter; which slices belong together, by generations
"""
