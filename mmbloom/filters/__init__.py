"""An open filter of one file.

``base``            what any filter can be asked and told
``file``            made, opened, closed, pickled
``bloom``           `BloomFilter`, and its set operations
``counting``        `CountingBloomFilter`: keys can be removed
``filter_writer``   how keys get into a filter, of one file or of a folder
``writer``          the section, between lock and unlock: bits and counters
``opened``          one opened file: its map, lock and writer
``brim``            what goes past the plan is told before it is marked
``claim``           answer now, mark later
``exclusion_list``  answers corrected by exclusions; the set that users change
``info``            `FilterInfo`: what a file says of itself
``options``         how it is opened; sizing arguments resolved
"""
