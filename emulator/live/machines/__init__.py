"""The machines that a cluster is made of, before anything runs on them (``natjam hosts``).

In: names of hosts, SSH's configuration, or a cloud.
Out: what each machine answers, and a cluster file for ``ray up``.
"""
