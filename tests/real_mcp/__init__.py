"""Real MCP servers, of both generations of the protocol: `make real` installs and runs them."""
