"""A filter in slices, each filled by one task of a cluster; needs no engine and no network.

``plan``      which keys belong to which slice
``slice``     one slice in memory: claimed in, read, written
``places``    where slices lie: a folder, or by fsspec whatever has a URL
``assembly``  a plain filter file of all slices
"""

from mmbloom.slices.assembly import assemble
from mmbloom.slices.plan import Part, SlicePlan, Split
from mmbloom.slices.slice import Slice

__all__ = ["Part", "Slice", "SlicePlan", "Split", "assemble"]
