"""Help, the manual page and completion: each has every command and option of the parser."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import has
import pytest
from cli_runner import COMMAND, EXACT, inside, refused, started
from workers import PATIENCE

from mmbloom._system.typing import HashName, Layout
from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import FILES, FOLDERS, outline, parser_of
from mmbloom.cli.process import EXIT_CODES
from mmbloom.logs.lines import Empty

CODES = (
    "0 success; 1 nothing found, not sound, not comparable or too full; 2 usage error; 3 not a "
    "usable filter; 4 lock timeout; 5 I/O error; 6 the filter is full; 129, 130 and 143 ended by "
    "SIGHUP, SIGINT (Ctrl-C) and SIGTERM; 141 the reader of stdout stopped reading"
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
    assert list(outline()[1]) == list(COMMANDS)


@pytest.mark.parametrize("name", EXPECTED)
def test_help_of_each_command(name: str) -> None:
    done = inside(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"usage: mmbloom {name}" in words(done.out)
    assert CODES in words(done.out)
    for flag in EXPECTED[name].split():
        assert re.search(rf"^ +(-\w( \w+)?, )?{flag}\b", done.out.decode(), re.MULTILINE), flag
    for action in parser_of(name)._actions:
        assert action.help, action
    assert inside("help", name) == done


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


def test_help_without_a_command() -> None:
    assert inside("help") == inside("--help")
    done = inside("help", "nosuch")
    assert (done.code, done.out) == (2, b"")
    for word in ("nosuch", *COMMANDS):
        assert re.search(rf"\b{word}\b", done.err)


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


@pytest.fixture
def page() -> str:
    done = inside("manual")
    assert (done.code, done.err) == (0, "")
    return done.out.decode()


def plain(roff: str) -> str:
    """The words of the page, without what sets their type, in one line."""
    bare = re.sub(r"\\f[BIR]|\\,|\\/", "", roff).replace(r"\-", "-").replace(r"\e", "\\")
    return " ".join(bare.split())


def part_of(page: str, name: str) -> str:
    """What the page has of one command."""
    _, _, rest = page.partition(f"\n.SS \\fBmmbloom {name}\\fR\n")
    return plain(re.split(r"\n\.S[SH] ", rest)[0])


@pytest.mark.parametrize("name", COMMANDS)
def test_it_has_every_option(page: str, name: str) -> None:
    part = part_of(page, name)
    assert part.startswith(f"{COMMANDS[name].summary} usage: mmbloom {name} ")
    for action in parser_of(name)._actions:
        if "--help" in action.option_strings:  # the same everywhere, and in the usage
            continue
        assert " ".join((action.help or "?").split()) in part
        for option in action.option_strings:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", part.partition("options:")[2]), option


def test_it_has_every_example_and_exit_code(page: str) -> None:
    _, _, rest = page.partition("\n.SH EXAMPLES\n")
    lines = [line.replace(r"\-", "-").replace(r"\e", "\\") for line in rest.split("\n")]
    for name in COMMANDS:
        for example in COMMANDS[name].examples:
            for line in example.split("\n"):
                assert line in lines
    assert EXIT_CODES.removeprefix("exit codes: ") in plain(page.partition(".SH EXIT STATUS")[2])


def test_one_page_at_all_widths(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide the terminal is, the page is the same, and no text of it is a request."""
    for width in range(20, 140, 9):
        monkeypatch.setenv("COLUMNS", str(width))
        assert inside("manual").out.decode() == page, width
    for line in page.splitlines():
        assert re.match(r"\.(TH|SH|SS|TP|RS|RE|B|nf|fi)\b|[^.']|$", line), line


def test_man_reads_it(page: str) -> None:
    if not (groff := shutil.which("groff")):
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-ww", "-b", "-z", "-Tutf8"],
        input=page,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Values that are no path, by the name that help gives them.
OTHERS = {
    *("BLOCKS", "COMMAND", "FIELD", "K", "KEY", "M", "MODE", "N", "P", "S", "SEP", "SHELL"),
    *("A.B", "SHARE", "TIME", "seed"),
}
# A line as it is typed, and what its last word can be.
TYPED = {
    "mmbloom de": {"dedup"},
    "mmbloom dedup --out": {"--output", "--output-dir"},
    "mmbloom dedup --layout ": {"blocked", "standard"},
    "mmbloom dedup seen.bloom so": {"some.log", "somewhere"},
    "mmbloom dedup seen.bloom some.log so": {"some.log", "somewhere"},
    "mmbloom dedup --resident seen.bloom so": {"some.log", "somewhere"},
    "mmbloom dedup --output-dir so": {"somewhere"},
    "mmbloom create --like se": {"seen.bloom"},
    "mmbloom help de": {"dedup"},
    "mmbloom completion ": {"bash", "zsh", "fish"},
}
SHELLS = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


def script(shell: str) -> str:
    done = inside("completion", shell)
    assert (done.code, done.err) == (0, "")
    return done.out.decode()


def options_in(made: str, shell: str, name: str) -> set[str]:
    """Read the options of a command out of a script."""
    if shell == "bash":
        _, _, rest = made.partition(f"\n_shtab_mmbloom_{name}_option_strings=(")
        return {*rest.partition(")")[0].split()}
    if shell == "zsh":
        _, _, rest = made.partition(f"\n_shtab_mmbloom_{name}_options=(\n")
        lines = rest.partition("\n)\n")[0].splitlines()
        heads = [line.partition("[")[0] for line in lines if "[" in line]  # else no option's
        return {option for head in heads for option in re.findall(r"--?[a-zA-Z][\w-]*", head)}
    start = f"complete -c mmbloom -n '_shtab_mmbloom_using {name}' "
    found: set[str] = set()
    for line in made.splitlines():
        if line.startswith(start):
            head = line.removeprefix(start).partition(" -d ")[0]
            found |= {f"-{letter}" for letter in re.findall(r"-s (\S+)", head)}
            found |= {f"--{word}" for word in re.findall(r"-l (\S+)", head)}
    return found


@SHELLS
def test_it_has_every_command_and_option(shell: str) -> None:
    made = script(shell)
    for name in COMMANDS:
        actions = parser_of(name)._actions
        options = {option for action in actions for option in action.option_strings}
        assert options_in(made, shell, name) == options, name
        for choice in [choice for action in actions for choice in action.choices or ()]:
            assert str(choice) in made, (name, choice)


def test_every_value_is_known_to_be_a_path_or_not() -> None:
    """A new argument says by its name whether files, folders or neither complete it."""
    assert not {*FILES} & {*FOLDERS} | OTHERS & {*FILES, *FOLDERS}
    for name in COMMANDS:
        for action in parser_of(name)._actions:
            if action.nargs != 0 and not action.choices:
                assert (action.metavar or action.dest) in OTHERS | FILES | FOLDERS, (name, action)


@SHELLS
def test_the_shell_reads_it(tmp_path: Path, shell: str) -> None:
    if not (found := shutil.which(shell)):
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([found, "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def completed_by_bash(script: str, line: str, folder: Path) -> set[str]:
    words = line.split(" ")
    call = f"""
COMP_WORDS=({" ".join(words[:-1])} {words[-1] or "''"}) COMP_CWORD={len(words) - 1}
_shtab_mmbloom mmbloom '{words[-1]}'
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return run(["bash", "--norc", "-c", script + call], folder)


def completed_by_fish(script: str, line: str, folder: Path) -> set[str]:
    return run(["fish", "--no-config", "-c", f"{script}\ncomplete -C '{line}'"], folder)


def run(command: list[str], folder: Path) -> set[str]:
    home = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=home, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    # fish explains behind a tab, and marks folders.
    return {answer.partition("\t")[0].rstrip("/") for answer in done.stdout.split("\n")} - {""}


@pytest.mark.skipif(not has.DEV_FD, reason="this system has no /dev/fd, which bash needs")
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_what_it_completes(tmp_path: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    made = script(shell)
    (tmp_path / "somewhere").mkdir()
    for name in ("some.log", "seen.bloom"):
        (tmp_path / name).touch()
    complete = {"bash": completed_by_bash, "fish": completed_by_fish}[shell]
    for line, expected in TYPED.items():
        assert complete(made, line, tmp_path) == expected, line


@pytest.mark.parametrize("command", [["completion", "bash"], ["manual"]])
def test_without_the_library(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    for name in ("shtab", "argparse_manpage", "argparse_manpage.manpage"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it is an ImportError
    assert refused(inside(*command), 2, "not installed", "pip install 'mmbloom[cli]'")
