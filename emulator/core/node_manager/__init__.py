"""The NodeManager: the containers of one node, their states, and what the node has to tell.

In: commands about containers, and completions from whatever carries them out.
Out: effects on containers (only it has them), and reports to the two other roles.
"""
