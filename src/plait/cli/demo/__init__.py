"""The demo: the real agent mends a sample repository, with a scripted model or with a small local one.

Floor: 7. Owns: the sample, the script and the local model's server; never: a way of its own to run an agent.
"""
