"""The ResourceManager: what it knows of the cluster, who gets a container, and who must give one back.

In: heartbeats of NodeManagers and ApplicationMasters, submissions, node losses.
Out: grants and what is asked back, in the answers to heartbeats; kills and launches of ApplicationMasters.
"""
