# The interface is the reference's, name for name; what else its `Claimed` has is its own.
from mmbloom._engine.reference.bits import Claimed as Claimed
from mmbloom._engine.reference.bits import claim as claim
from mmbloom._engine.reference.bits import commit as commit
