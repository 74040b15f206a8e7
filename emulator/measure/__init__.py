"""The measurement campaign: what each operation costs on the machine or Ray cluster at hand."""
