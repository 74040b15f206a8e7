"""Campaigns: many runs, planned in a file, that can be stopped and continued."""
