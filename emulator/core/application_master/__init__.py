"""The ApplicationMaster: the tasks of one job, what it asks for, and which task gives its container back.

In: grants and what is asked back, reports on its containers, progress.
Out: its ask, and commands to NodeManagers: start, suspend, resume, kill.
"""
