"""What an endpoint says when it does not answer: read, told apart, put into words.

Floor: 1. Owns: the kinds of failure and what is known of each; never: another try.
"""
