# SPDX-License-Identifier: MIT
"""How Sphinx builds these pages: python -m sphinx -W docs docs/_build"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import api_pages

import ipu

project = "ipu"
copyright = "the authors of ipu"
release = ipu.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build", "jupyter_execute"]  # what builds leave
html_theme = "furo"
html_title = "ipu"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks have their outputs in them

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the text under Args says it with shapes and units
autodoc_inherit_docstrings = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


# arguments that are described together
NAMES = re.compile(r"^( +)(\*{0,2}\w+(?:,\s+\*{0,2}\w+)+): ", re.MULTILINE)


def one_line_of_names(app, what, name, obj, options, lines):
    """Bring such lists into the form that Napoleon reads: on one line, and with stars
    that do not begin emphasis."""

    def line(found):
        names = re.sub(r",\s+", ", ", found[2])
        names = names.replace(", **", r", \*\*").replace(", *", r", \*")
        return f"{found[1]}{names}: "

    lines[:] = NAMES.sub(line, "\n".join(lines)).split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", one_line_of_names, priority=400)
    app.connect("builder-inited", lambda app: api_pages.write(Path(app.srcdir) / "api"))
