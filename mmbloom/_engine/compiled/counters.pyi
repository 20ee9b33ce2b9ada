# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine.reference.counters import counted_contains as counted_contains
from mmbloom._engine.reference.counters import decrement as decrement
from mmbloom._engine.reference.counters import increment as increment
