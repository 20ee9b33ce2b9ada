"""What RedisBloom's documentation and maintainers say: cells that are read, not run.

Its server is in no package that this project's machines can install. A row of the feature
table that is not here stays open. All pages are those of redis.io as of Redis 8.
"""

from typing import NamedTuple


class Read(NamedTuple):
    """A cell, and where it is said."""

    cell: str
    source: str


VERSION = "Redis 8"
READ = {
    "reopens without reading the whole file": Read("no", "persistence: loaded on server start"),
    "`kill -9` of a writer loses no key": Read(
        "client: yes, server: no", "persistence: a killed server loses all since the last snapshot"
    ),
    "two concurrent writers lose no key": Read("yes", "commands are executed one after the other"),
    "each key is new to exactly one writer": Read("yes", "BF.ADD, executed one after the other"),
    "damaged files that raise an error": Read("checksum", "redis.conf: rdbchecksum"),
    "finds a flipped bit": Read("on loading", "redis.conf: rdbchecksum"),
    "answers for each key of a batch: look up, add": Read("yes, yes", "BF.MEXISTS, BF.MADD"),
    "reads NumPy and Arrow without an object per key": Read("no", "RESP: bulk strings only"),
    "removes keys": Read("Cuckoo filter", "CF.DEL"),
    "grows": Read("yes", "BF.RESERVE: scales unless NONSCALING"),
    "forgets after a time": Read("whole filter", "EXPIRE; RedisBloom/RedisBloom#115 is open"),
    "excludes known false positives": Read("no", "no such command"),
    "reads a read-only file": Read("-", "no file of its own"),
    "union, intersection": Read("no, no", "RedisBloom/RedisBloom#20, #274"),
    "same hash in every process": Read("yes", "the server hashes"),
    "command that prints new lines": Read("no", "redis-cli prints replies"),
    "several hosts": Read("yes", "a server"),
    "Windows": Read("client only", "install: Linux and macOS; Windows by WSL or Docker"),
    "needs": Read("a server", "install"),
}
