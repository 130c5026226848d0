"""Training raced against PyTorch: heats, rows, milestones and their charts."""
