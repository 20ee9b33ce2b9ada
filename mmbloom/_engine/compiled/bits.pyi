# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine.reference.bits import OneKey as OneKey
from mmbloom._engine.reference.bits import add as add
from mmbloom._engine.reference.bits import contains as contains
from mmbloom._engine.reference.bits import count_set as count_set
