"""What a run leaves: journal, replay, history, tables, summary, its directory."""
