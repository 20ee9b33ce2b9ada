from mmbloom._engine.reference.members import find_members as find_members
