"""``natjam advise``: the same workload under every mechanism and the main policies, and which of them to choose."""
