"""The array of a filter in shared memory, where keys do not wait for the disk.

``share``           the writers that use it: the last one ends it
``moving``          where an array is, and how it moves to memory and back
``leaving``         the last writer brings the file up to date
``working_copy``    the copy itself: made, found, checked, and written to the file
"""
