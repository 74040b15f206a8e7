"""The results of a run: journal, replay, history, tables, summary, its directory."""
