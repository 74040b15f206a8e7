"""Reading and writing files so that every problem names file, line and field, and files are whole or not there.

In: paths, and the model or type that a file must fit.
Out: values with their positions; files written under another name first.
"""
