"""The Ray actors that play the roles: each holds machines, gives them messages and carries out their effects.

In: batches of messages from other hosts, completions from supervisors, the clock.
Out: batches to other hosts, orders to supervisors and services, records for the journal.
"""
