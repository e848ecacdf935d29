"""Sphinx builds this site; ``python tools/check.py docs`` says how."""

from __future__ import annotations

import os
import sys
import urllib.request
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Pages run the command `cmtrf` of the environment that builds them.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

project = "cmtrf"
author = "the cmtrf authors"
project_copyright = "2026, the cmtrf authors"
release = version = metadata.version("cmtrf")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = [
    "notes",  # for those who carry on, not for readers
    "_build",
    "_templates",
    "**/.ipynb_checkpoints",
    "gallery/*.py",
    "gallery/*.ipynb",
    "gallery/*.py.md5",
]

# Pages in Markdown; those with code cells are executed, and a cell that raises fails the build.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True

# The reference, from docstrings.
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc prints the types of the docstring
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# The gallery, from examples/plot_*.py.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "cmtrf"
html_static_path = ["_static"]
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False, "header_links_before_dropdown": 3}
html_sidebars = {"**": []}

INVENTORIES = {
    "numpy": "https://numpy.org/doc/stable/",
    "polars": "https://docs.pola.rs/api/python/stable/",
    "python": "https://docs.python.org/3/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def fetch_inventories(folder: Path) -> dict[str, tuple[str, str]]:
    """Link inventories of the libraries that can be reached: without a network there are no links."""
    folder.mkdir(parents=True, exist_ok=True)
    reached = {}
    for name, address in INVENTORIES.items():
        target = folder / f"{name}.inv"
        try:
            with urllib.request.urlopen(f"{address}objects.inv", timeout=3) as answer:
                content = answer.read()
        except OSError:
            continue
        if content.startswith(b"# Sphinx inventory"):
            target.write_bytes(content)
            reached[name] = (address, str(target))
    return reached


intersphinx_mapping = fetch_inventories(HERE / "_build" / "inventories")
