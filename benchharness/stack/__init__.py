"""Everything that stands up a serving stack: environments, sources, processes, engine adapters."""
