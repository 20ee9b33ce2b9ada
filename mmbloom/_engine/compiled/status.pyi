# The interface is the reference's, name for name.
from mmbloom._engine.reference.status import status_at as status_at
