"""Conversion and checks of keys: whatever a caller passes becomes a batch.

``coerce``   lists, arrays, columns, single and hashed keys become batches; all errors of keys
``batch``    a batch in chunks, each a call of the engine, its answers joined
``arrow``    Arrow columns as forms that kernels hash
``arrow_c``  Arrow's C structs and their lifetime, by ctypes
"""
