# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine._numpy import OneKey as OneKey
from mmbloom._engine._numpy import add as add
from mmbloom._engine._numpy import contains as contains
from mmbloom._engine._numpy import count_set as count_set
