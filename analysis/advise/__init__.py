"""``natjam advise``: runs one workload under every mechanism and the main policies, and says which to choose."""
