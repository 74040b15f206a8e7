"""Checks of an experiment that need several of its parts, or what it refers to.

In come the parts as read, each valid by itself, and the document; out go problems with their places.
"""
