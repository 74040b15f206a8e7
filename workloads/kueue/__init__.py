"""Kueue's objects: read from Kubernetes' files, kept in a file of natjam's own, written as Kueue's YAML.

``objects`` has the few kinds, ``state`` and ``arrivals`` make queues and workloads of them, ``saved`` is the file,
``manifests`` the YAML.
"""
