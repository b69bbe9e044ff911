"""The tools a model is given: files, search, the shell, and the library that programs name them by.

Floor: 3. Owns: names, parameters, words for the model, rules of each face; never: file or process mechanics.
"""
