"""A server of objects that speaks S3, on 127.0.0.1, for tests that have a state in a bucket.

Tests of it have the mark `object_store`: they need s3fs and moto, which are heavier than the rest.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from workers import PATIENCE, in_child

T = TypeVar("T")


@contextmanager
def running_object_store() -> Iterator[dict[str, Any]]:
    """Run a server with a bucket named "bucket"; gives what fsspec needs to reach it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    server = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server did not start"
                assert server.poll() is None, "the server ended"
                time.sleep(0.1)
        given = {"key": "x", "secret": "x", "endpoint_url": url}
        in_child(partial(_make_bucket, given))
        yield given
    finally:
        server.kill()
        server.wait()


def _make_bucket(options: dict[str, Any]) -> None:
    import fsspec  # noqa: PLC0415  s3fs has a thread of its own, so all of it is in children

    fsspec.filesystem("s3", **options).mkdir("bucket")


def quietly(function: Callable[[], T]) -> T:
    """In a child: the libraries of the store warn of what is their own affair."""
    warnings.simplefilter("ignore")
    return function()
