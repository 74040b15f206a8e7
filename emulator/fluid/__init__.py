"""The fluid engine: jobs are amounts of work, shares act exactly; no tasks, no protocol (flex, section 2.4)."""
