# The interface is the reference's.
from mmbloom._engine.reference.single import Grounds as Grounds
from mmbloom._engine.reference.single import SingleKeys as SingleKeys
