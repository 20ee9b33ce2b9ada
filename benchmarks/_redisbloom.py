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
    "reopens without reading all of it": Read("no", "persistence: loaded when the server starts"),
    "`kill -9` of a writer loses no key": Read(
        "of a client", "persistence: a server that is killed loses all since its last snapshot"
    ),
    "two writers at once lose no key": Read("yes", "commands are executed one after the other"),
    "exactly one writer gets “new”": Read("yes", "BF.ADD, executed one after the other"),
    "damaged files that raise an error": Read("checksum", "redis.conf: rdbchecksum"),
    "finds a flipped bit": Read("on loading", "redis.conf: rdbchecksum"),
    "a batch is answered: look up, add": Read("yes, yes", "BF.MEXISTS, BF.MADD"),
    "NumPy and Arrow, no object a key": Read("no", "RESP: each item is a bulk string"),
    "removes keys": Read("Cuckoo filter", "CF.DEL"),
    "grows": Read("yes", "BF.RESERVE: scales unless NONSCALING"),
    "forgets after a time": Read("all at once", "EXPIRE; RedisBloom/RedisBloom#115 is open"),
    "known false positives excluded": Read("no", "no such command"),
    "reads a read-only file": Read("-", "no file of its own"),
    "union, intersection": Read("no, no", "RedisBloom/RedisBloom#20, #274"),
    "same hash in every process": Read("yes", "the server hashes"),
    "command that prints new lines": Read("no", "redis-cli prints replies"),
    "several hosts": Read("yes", "a server"),
    "Windows": Read("client only", "install: Linux and macOS; Windows by WSL or Docker"),
    "needs": Read("a server", "install"),
}
