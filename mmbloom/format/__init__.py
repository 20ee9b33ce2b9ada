"""The file formats: everything a second implementation must match. These modules open no files.

``header``      a filter file: its specification, and the table that encodes and decodes it
``checker``     checks of bytes and JSON records, which raise `FormatError`
``positions``   from the halves of a key's hash to its positions, for each layout
``folder``      a folder: its manifest, the sizes of growing files, the periods of rotating files
``exclusions``  the text file of exclusions: its name and its lines
``slices``      the file of one slice of a filter; how slices belong together, by generations
"""
