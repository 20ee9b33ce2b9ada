"""A filter in slices, each filled by one task of a cluster, for Dask, Spark and others.

``slices``  which keys belong to which slice; one slice in memory; a plain filter of all slices
``places``  where slices are stored: a folder, or a URL that fsspec knows
``states``  a filter in slices that outlives its tasks: a run makes the next generation
``tasks``   what tasks of Dask and of Spark share
``dask``    filters filled and asked by a Dask cluster
``spark``   filters filled and asked by a Spark cluster
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
