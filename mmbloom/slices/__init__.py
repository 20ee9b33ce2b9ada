"""A filter in slices, each filled by one task of a cluster; needs no engine and no network.

``plan``         which keys belong to which slice
``slice``        one slice in memory: claimed in, read, written
``places``       where slices lie: a folder, or by fsspec whatever has a URL
``assembly``     a plain filter file of all slices
``generations``  a filter in slices that outlives its tasks: a run makes the next generation
``first_seen``   the run and the commit behind `first_seen` of Dask and Spark
``records``      which generation is the newest, and which run made it
"""

from mmbloom.slices.assembly import assemble
from mmbloom.slices.first_seen import FirstSeen, RunOptions
from mmbloom.slices.generations import Generations, Run
from mmbloom.slices.plan import Part, SlicePlan, Split
from mmbloom.slices.slice import Slice

__all__ = [
    "FirstSeen",
    "Generations",
    "Part",
    "Run",
    "RunOptions",
    "Slice",
    "SlicePlan",
    "Split",
    "assemble",
]
