# The interface is the reference's, name for name.
from mmbloom._engine.reference.at_once import write_new as write_new
