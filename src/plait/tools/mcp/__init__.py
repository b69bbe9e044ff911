"""Tools of MCP servers: programs and addresses that offer tools by the Model Context Protocol.

Floor: 3. Owns: servers as configured, their processes, what of theirs a model sees; never: the protocol (the `mcp`
package has it, imported where a server is begun), or when a conversation takes new tools in.
"""
