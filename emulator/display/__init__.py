"""The output on the terminal, during work and at its end."""
