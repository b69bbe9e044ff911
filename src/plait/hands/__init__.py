"""What touches the machine for a tool: files through opened directories, edits that are whole or absent, processes.

Floor: 2. Owns: paths, files, search and processes; never: what a model is told about them.
"""
