"""Help: every command and option is explained, and options may stand anywhere."""

import itertools
import re
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest
from cli_runner import COMMAND, EXACT, inside, started

from mmbloom._system.typing import HashName, Layout
from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import outline, parser_of
from mmbloom.logs.lines import Empty

CODES = (
    "0 ok, 1 nothing found, not sound, not alike or too full, 2 usage, 3 not a usable filter, "
    "4 lock timeout, 5 I/O error, 6 the filter is full, 141 the reader of stdout has stopped, 129, "
    "130 and 143 ended by SIGHUP, SIGINT (Ctrl-C) and SIGTERM"
)
EXPECTED = {
    "create": "--permissions -q -n -p --layout --seed --like --counting --growing --rotate --keep "
    "--every",
    "dedup": "-n -p --layout --seed -d -i -f -s -w -z -t -k --crlf --json-key -o --output-dir -j "
    "--relative --permissions --durable --stats --stats-to -q --progress --lock-timeout "
    "--when-full --resident --growing --rotate --keep --every",
    "add": "-n -p --growing --rotate --keep --every -i -f -s -w -z -t -k --json-key --stats "
    "--stats-to --progress --lock-timeout --resident -q --permissions --crlf",
    "check": "-H --crlf -v -c -q -i -f -s -w -z -t -k --json-key --progress",
    "remove": "-i -f -s -w -z -t -k --json-key --progress --lock-timeout --allow-network",
    "exclude": "--add --remove --list",
    "grow": "--reserve --lock-timeout --allow-network",
    "info": "--json --recount --fail-above",
    "verify": "--keys --json -i -f -s -w -z -t -k --json-key --progress",
    "copy": "-q --plain --seal --replace --permissions --allow-network",
    "merge": "-q --permissions --allow-network",
    "intersect": "-q --permissions --allow-network",
    "compare": "--json",
    "repair": "--num-bits --num-hashes -n -p --layout --seed --permissions --allow-network",
    "export": "--guava --permissions --allow-network",
    "import": "-q --guava -n -p --permissions --allow-network",
    "plan": "-n -p --json",
    "help": "-h",
    "completion": "-h",
    "manual": "-h",
}


def words(text: bytes) -> str:
    return " ".join(text.decode().split())


def test_help() -> None:
    done = inside("--help")
    assert (done.code, done.err) == (0, "")
    assert CODES in words(done.out)
    for name, command in COMMANDS.items():
        assert f" {name} {command.summary}" in words(done.out)
    assert set(EXPECTED) == set(COMMANDS)


@pytest.mark.parametrize("name", EXPECTED)
def test_help_of_each_command(name: str) -> None:
    done = inside(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"usage: mmbloom {name}" in words(done.out)
    assert CODES in words(done.out)
    for flag in EXPECTED[name].split():
        assert re.search(rf"^ +(-\w( \w+)?, )?{flag}\b", done.out.decode(), re.MULTILINE), flag


@pytest.mark.parametrize("name", EXPECTED)
def test_each_option_has_help(name: str) -> None:
    for action in parser_of(name)._actions:
        assert action.help, action


def test_words_of_choices() -> None:
    """Help needs none of the types whose words these are, and spells them itself."""
    actions = {action.dest: action.choices for action in parser_of("dedup")._actions}
    assert actions["empty"] == get_args(Empty)
    assert actions["hash"] == get_args(HashName)
    assert actions["layout"] == get_args(Layout)


def test_as_a_process() -> None:
    script = [str(Path(COMMAND[0]).with_name("mmbloom"))]
    if not Path(script[0]).exists():
        pytest.skip("mmbloom is not installed as a script beside this interpreter")
    for command in (script, COMMAND):
        assert CODES in words(started("--help", command=command).out)
        assert started("dedup", "--help", command=command).code == 0
        expected = f"mmbloom {version('mmbloom')}\n".encode()
        for option in ("--version", "-V"):
            assert started(option, command=command) == (0, expected, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_as_a_command(name: str) -> None:
    assert inside("help", name) == inside(name, "--help")


def test_help_without_a_command() -> None:
    assert inside("help") == inside("--help")
    done = inside("help", "nosuch")
    assert (done.code, done.out) == (2, b"")
    for word in ("nosuch", *COMMANDS):
        assert re.search(rf"\b{word}\b", done.err)


def test_the_outline_has_every_command() -> None:
    assert list(outline()[1]) == list(COMMANDS)


def test_options_stand_anywhere(tmp_path: Path) -> None:
    for name, data in {"1": b"a 1\nb 1\n", "2": b"A 2\nc 2\n"}.items():
        (tmp_path / name).write_bytes(data)
    files = [str(tmp_path / "1"), str(tmp_path / "2")]
    options = (["-i"], ["-w", "1"], [*EXACT])
    for i, places in enumerate(itertools.product((0, 1, 3), repeat=3)):
        argv: list[str] = []
        for place, file in enumerate([str(tmp_path / f"seen{i}"), *files, ""]):
            for option, at in zip(options, places, strict=True):
                argv += option if at == place else []
            argv += [file] if file else []
        assert inside("dedup", *argv) == (0, b"a 1\nb 1\nc 2\n", ""), argv


def test_a_name_that_looks_like_an_option(here: Path) -> None:
    """After -- everything is a file."""
    Path("-d").write_bytes(b"a\n")
    assert inside("dedup", "seen", *EXACT, "--", "-d") == (0, b"a\n", "")
    assert inside("dedup", "seen", "./-d", "-d") == (0, b"a\n", "")
