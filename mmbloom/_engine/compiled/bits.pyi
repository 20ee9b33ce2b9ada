# The interface is the reference's, name for name; what else its `Claimed` has is its own.
from mmbloom._engine.reference.bits import Claimed as Claimed
from mmbloom._engine.reference.bits import OneKey as OneKey
from mmbloom._engine.reference.bits import add as add
from mmbloom._engine.reference.bits import chunk_keys as chunk_keys
from mmbloom._engine.reference.bits import claim as claim
from mmbloom._engine.reference.bits import commit as commit
from mmbloom._engine.reference.bits import contains as contains
from mmbloom._engine.reference.bits import contains_any as contains_any
from mmbloom._engine.reference.bits import contains_with as contains_with
from mmbloom._engine.reference.bits import count_set as count_set
from mmbloom._engine.reference.bits import meeting as meeting
