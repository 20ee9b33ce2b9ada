# The interface is the reference's, name for name; what else its `Claimed` has is its own.
from mmbloom._engine._numpy import Claimed as Claimed
from mmbloom._engine._numpy import claim as claim
from mmbloom._engine._numpy import commit as commit
