# The interface is the reference's, name for name; a test compares the signatures.
from mmbloom._engine._numpy_hash import first_unencodable as first_unencodable
from mmbloom._engine._numpy_hash import plain as plain
