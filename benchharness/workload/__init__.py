"""The load and the client that measures it: prompts, arrivals, transports, streams and what they mean."""
