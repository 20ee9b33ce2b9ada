# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine.reference.hash import first_unencodable as first_unencodable
from mmbloom._engine.reference.hash import hash_keys as hash_keys
from mmbloom._engine.reference.hash import plain as plain
from mmbloom._engine.reference.siphash import siphash as siphash
