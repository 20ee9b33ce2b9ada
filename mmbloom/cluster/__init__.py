"""A filter in slices, each filled by one task of a cluster, for Dask, Spark and others.

``slices``  assigns keys to slices, fills a slice in memory, and assembles slices into a filter
``places``  where slices are stored: a folder, or a URL that fsspec supports
``states``  a filter in slices that outlives its tasks: each run makes the next generation
``tasks``   code shared by the tasks of Dask and of Spark
``dask``    fill and query filters on a Dask cluster
``spark``   fill and query filters on a Spark cluster
"""

from mmbloom.cluster.slices import Part, Slice, SlicePlan, Split, assemble
from mmbloom.cluster.states import FirstSeen, Generations, Run, RunOptions

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
