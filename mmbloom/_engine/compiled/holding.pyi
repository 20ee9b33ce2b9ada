# The interface is the reference's, name for name.
from mmbloom._engine.reference.holding import Held as Held
from mmbloom._engine.reference.holding import Hold as Hold
from mmbloom._engine.reference.holding import LockState as LockState
