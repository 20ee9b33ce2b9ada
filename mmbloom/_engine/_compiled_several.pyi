# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine._numpy import contains_any as contains_any
