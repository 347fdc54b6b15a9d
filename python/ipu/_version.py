"""The package's version, read by ``setup.py`` too."""

__version__ = "0.1.0"
