"""Storage of task output, checkpoints and process images.

In: a path, or the URL of an object store or of HDFS.
Out: whole files under their final names, or none.
"""
