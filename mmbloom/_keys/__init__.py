"""The border: whatever a caller passes becomes a batch, and kernels check nothing.

``coerce``   lists, arrays, columns, single and hashed keys become batches; every refusal
``batch``    a batch in chunks, hashed ahead on threads, its answers put together
``arrow``    Arrow columns as forms that kernels hash
``arrow_c``  Arrow's C structs and their lifetime, by ctypes
"""
