"""Reading and writing files so that every problem names file, line and field."""
