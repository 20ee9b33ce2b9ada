# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine.reference.bits import contains_any as contains_any
