"""The border: whatever a caller passes becomes a batch, and kernels check nothing.

``coerce``   lists, arrays, columns and single keys; every refusal
``batch``    a batch in chunks, hashed ahead on threads, its answers put together
``hashed``   keys that are hashed already
``arrow``    Arrow columns as forms that kernels hash
``arrow_c``  Arrow's C structs and their lifetime, by ctypes
``members``  which member of a line of JSON is its key
"""
