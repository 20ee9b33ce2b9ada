"""pyspark's daemon, which forks its workers, with all imported before that a worker imports.

pyspark leaves that to each worker, as pandas and Arrow may start threads when they are imported,
which a fork does not have. It is a second of work for each of some sixty workers, and these tests
fork with both imported anyway. Spark starts this as a program: see "spark.python.daemon.module".
"""

import gc

import pandas as pd  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import mmbloom.cluster.spark  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # a worker collects garbage after each task, and would pass over all of these
    manager()
