"""The fluid engine: jobs are amounts of work, shares are exact; no tasks, no protocol (flex, section 2.4)."""
