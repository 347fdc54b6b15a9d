# SPDX-License-Identifier: MIT
"""How Sphinx builds these pages: python -m sphinx -W docs docs/_build"""

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


def setup(app):
    app.connect("builder-inited", lambda app: api_pages.write(Path(app.srcdir) / "api"))
