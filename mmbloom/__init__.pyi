# Every name for users, for type checkers: the same as in `__init__.py`, as a test holds. Without
# "as", type checkers regard an import as private.

from mmbloom import errors as errors
from mmbloom import sizing as sizing
from mmbloom._engine import engine as engine
from mmbloom._keys.coerce import columns as columns
from mmbloom._keys.coerce import hash_many as hash_many
from mmbloom._system.typing import Key as Key
from mmbloom._system.typing import Keys as Keys
from mmbloom.crawl.sieve import Sieve as Sieve
from mmbloom.errors import *  # noqa: F403
from mmbloom.filters.base import Filter as Filter
from mmbloom.filters.bloom import BloomFilter as BloomFilter
from mmbloom.filters.claim import Claim as Claim
from mmbloom.filters.counting import CountingBloomFilter as CountingBloomFilter
from mmbloom.filters.exclusions import Exclusions as Exclusions
from mmbloom.filters.grow import grow as grow
from mmbloom.filters.growing import GrowingFilter as GrowingFilter
from mmbloom.filters.info import FilterInfo as FilterInfo
from mmbloom.filters.info import FolderInfo as FolderInfo
from mmbloom.filters.open import open as open  # noqa: A004  as zarr.open
from mmbloom.filters.open import open_or_create as open_or_create
from mmbloom.filters.rotating import RotatingFilter as RotatingFilter
from mmbloom.logs.dedup import dedup_files as dedup_files
from mmbloom.operations.check import Repair as Repair
from mmbloom.operations.check import Verification as Verification
from mmbloom.operations.check import repair as repair
from mmbloom.operations.check import verify as verify
from mmbloom.operations.combine import Similarity as Similarity
from mmbloom.operations.combine import compare as compare
from mmbloom.operations.combine import intersect as intersect
from mmbloom.operations.combine import merge as merge
from mmbloom.operations.copy import copy as copy
from mmbloom.operations.guava import export_guava as export_guava
from mmbloom.operations.guava import import_guava as import_guava
from mmbloom.sizing import FilterParams as FilterParams

__version__: str
