"""What a person sees on the terminal while something runs and when it ends."""
