"""The array of a filter in shared memory, where keys do not wait for the disk.

``share``           which writers use it: the last one gives it up
``moving``          where an array lies, and how it moves to memory and back
``leaving``         the last one brings the file up to date
``working_copy``    the copy itself: how it is made, found, proved, and written to the file
"""
