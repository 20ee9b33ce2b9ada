"""Completion in a shell: made from the parser, so that it knows every command and option."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runner import inside, is_one_line
from workers import PATIENCE

from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import FILES, FOLDERS, parser_of

Capture = pytest.CaptureFixture[bytes]
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


def script(capture: Capture, shell: str) -> str:
    done = inside(capture, "completion", shell)
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
def test_it_has_every_command_and_option(capfdbinary: Capture, shell: str) -> None:
    """Of each command of the parser the script has just the options that the parser has."""
    made = script(capfdbinary, shell)
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
def test_the_shell_reads_it(tmp_path: Path, capfdbinary: Capture, shell: str) -> None:
    """The script has no error of syntax."""
    if not (found := shutil.which(shell)):
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(capfdbinary, shell))
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


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_what_it_completes(tmp_path: Path, capfdbinary: Capture, shell: str) -> None:
    """Commands, options, choices, and file names only where a file can stand."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    made = script(capfdbinary, shell)
    (tmp_path / "somewhere").mkdir()
    for name in ("some.log", "seen.bloom"):
        (tmp_path / name).touch()
    complete = {"bash": completed_by_bash, "fish": completed_by_fish}[shell]
    for line, expected in TYPED.items():
        assert complete(made, line, tmp_path) == expected, line


@pytest.mark.parametrize("command", [["completion", "bash"], ["manual"]])
def test_without_the_library(
    capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """What is missing is named, and what to install."""
    for name in ("shtab", "argparse_manpage", "argparse_manpage.manpage"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it is an ImportError
    done = inside(capfdbinary, *command)
    assert (done.code, done.out) == (2, b"")
    assert is_one_line(done.err, "not installed", "pip install 'mmbloom[cli]'")
