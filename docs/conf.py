"""How Sphinx builds the documentation; `CONTRIBUTING.md` has the command."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "mmbloom"
copyright = "the authors of mmbloom"  # noqa: A001  Sphinx's name
release = version = installed("mmbloom")
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "command_line",
    "links",
]
exclude_patterns = ["extensions", "pictures"]
default_role = "autolink"
smartquotes = False  # they would make one dash of --
nitpicky = True
nitpick_ignore = [  # what docstrings name, and this site does not describe
    ("py:obj", "GrowthPlan"),
    ("py:obj", "PeriodPlan"),
    ("py:obj", "collections.deque"),
    ("py:obj", "diskcache.Deque"),
    ("py:obj", "io.BytesIO"),
    ("py:obj", "io.FileIO"),
    # Fields, which stand in the list of their class.
    ("py:obj", "file_bytes"),
    ("py:obj", "files"),
    ("py:obj", "num_hashes"),
    ("py:obj", "seed"),
    # Named in modules where they are not at home.
    ("py:obj", "FilterParams"),
    ("py:obj", "FormatError"),
    ("py:obj", "KeyTypeError"),
]

autodoc_mock_imports = ["pyspark"]  # 500 MB, of which no page needs anything
autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # numpydoc's sections have the types, in words
autosummary_generate = False
numpydoc_show_class_members = False  # autodoc shows them, with their docstrings
myst_enable_extensions = ["attrs_block"]  # {.cards} before a list
myst_heading_anchors = 3  # as GitHub makes them, which links between pages use

copybutton_prompt_text = "$ "  # of blocks of kind console: only what is typed is copied

html_theme = "pydata_sphinx_theme"
html_title = f"{project} {release}"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"install": []}  # no page stands beside or below it
html_theme_options = {
    "secondary_sidebar_items": ["page-toc"],
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
