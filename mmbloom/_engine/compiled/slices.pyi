from mmbloom._engine.reference.slices import partition as partition
from mmbloom._engine.reference.slices import rebase as rebase
from mmbloom._engine.reference.slices import slices_of as slices_of
