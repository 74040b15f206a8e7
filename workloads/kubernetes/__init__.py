"""Objects of Kubernetes from files: named fields of a few kinds, and where each stands.

``reading`` finds the objects in files, folders and lists, and takes only what the structs of a caller name.  Values of
other fields (environment, arguments, annotations) are not even made, so that no output and no error can show them.
"""
