"""What engines and benchmark tools print: one parser a dialect, and which of their figures may be used."""
