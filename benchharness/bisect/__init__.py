"""Which point of an axis, or which difference of two stacks, made it slower."""
