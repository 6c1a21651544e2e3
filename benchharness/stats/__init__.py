"""Statistics over stored records. The launch is the unit of repetition."""
