"""A voice assistant that runs entirely on one box."""

__version__ = "0.1.0"
