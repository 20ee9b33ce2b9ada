"""The directive ``command-line``: all commands and their options, generated from the parser.

It runs when the site is built, so the page always matches the program.
"""

import argparse
from collections.abc import Iterator
from functools import partial

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.rst import escape

from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import whole

_WIDTH = 66  # of the lines of a usage, "usage: " included: a page between its indexes has no more


class CommandLine(SphinxDirective):
    """Sections with the commands."""

    def run(self) -> list[nodes.Node]:
        """Write them in reStructuredText, and parse that."""
        _, parsers = whole()
        text = "\n".join(line for name in COMMANDS for line in _section(name, parsers[name]))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of the section on one command."""
    parser.formatter_class = partial(argparse.HelpFormatter, width=_WIDTH)
    title = f"mmbloom {name}"
    yield from (title, "-" * len(title), "", escape(parser.description or ""), "")
    usage = parser.format_usage()
    yield from _literal("text", "\n".join(line[len("usage: ") :] for line in usage.splitlines()))
    yield from (f".. program:: {title}", "")
    formatter = argparse.HelpFormatter(title)
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.dest == "help" or action.help is argparse.SUPPRESS:
                continue
            yield f".. option:: {formatter._format_action_invocation(action)}"
            yield from ("", f"   {escape(formatter._expand_help(action))}", "")
    yield from _literal("sh", "\n".join(COMMANDS[name].examples))


def _literal(language: str, text: str) -> Iterator[str]:
    """Yield the lines of a literal block."""
    yield from (f".. code-block:: {language}", "")
    yield from (f"   {line}" for line in text.splitlines())
    yield ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
